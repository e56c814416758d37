#include "lockstep/onnx/internal/importer.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::onnx {
namespace {

constexpr int64_t kLeastVersion = 7;  // of the operator set; before it, operators broadcast differently
constexpr size_t kMostProblems = 5;
constexpr int64_t kMostListed = 1'000;
constexpr int64_t kMostSize = int64_t{1} << 24;
// What layers may have more than the file: tensors that several of them share are copied for each.
constexpr int64_t kMostShares = 32, kMostMoreNumbers = int64_t{1} << 28;

int64_t version_of(const proto::Model& model) {
  int64_t version = 1;
  for (const proto::OperatorSet& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") version = set.version();
  }
  if (version < kLeastVersion)
    throw Error(ErrorCode::invalid_option,
                "the file uses version " + std::to_string(version) +
                    " of ONNX's operators, and Lockstep reads version 7 (2018) and later",
                "onnx.version_converter.convert_version (Python) brings it up to date");
  return version;
}

std::string node_text(const proto::Node& node) {
  const std::string op = printable(node.op_type().substr(0, 40));
  if (!node.name().empty()) return op + " " + name_text(node.name());
  return op + (node.output_size() > 0 ? " that gives " + name_text(node.output(0)) : "");
}

bool is_open(const proto::Dimension& dimension) {
  return !dimension.has_dim_value() || dimension.dim_value() <= 0;
}

/// Whether value = factor * input + shift is of pixels from 0 to 255, not of pixels from 0 to 1. Deviations
/// are at most half of the range of pixels; a mean alone may be subtracted.
bool takes_bytes(const View& view) {
  bool is_small = true, is_unit = true;
  for (size_t i = 0; i < view.factor.size(); ++i) {
    const double factor = view.factor[i], mean = -view.shift[i] / factor;
    is_small = is_small && factor < 1.5;
    is_unit = is_unit && factor >= 0.5 && mean <= 1;
  }
  return is_small && !is_unit;
}

}  // namespace

std::string axes_text(const std::vector<Axis>& axes) {
  std::string text = "[";
  for (const Axis& axis : axes) {
    if (text.size() > 1) text += ",";
    text += axis.label == 'N' ? "batch" : axis.size == kOpenTime ? "time" : std::to_string(axis.size);
  }
  return text + "]";
}

std::optional<size_t> channel_axis(const View& view) {
  const std::string labels = view.labels();
  const size_t place = labels.find_first_of("CF");
  return place == std::string::npos ? std::nullopt : std::optional(place);
}

size_t axis_of(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count)
    throw Unsupported{"it names axis " + std::to_string(axis) + " of " + std::to_string(rank)};
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

Importer::Importer(const proto::Model& model, const ImportOptions& options)
    : graph_(model.graph()),
      options_(options),
      tensors_(options.folder),
      version_(version_of(model)),
      is_own_(model.producer_name() == "Lockstep") {
  for (const proto::Tensor& tensor : graph_.initializer()) stored_.emplace(tensor.name(), &tensor);
  for (const proto::Node& one : graph_.node()) {
    for (const std::string& input : one.input()) readers_[input].push_back(&one);
  }
}

FoundLayers Importer::find() {
  read_input();
  const std::vector<bool> needed = needed_nodes();
  for (int i = 0; i < graph_.node_size(); ++i) {
    if (needed[static_cast<size_t>(i)]) run(graph_.node(i));
  }
  if (problem_count_ > 0) refuse_problems();
  read_output();
  return std::move(found_);
}

void Importer::read_input() {
  std::vector<const proto::ValueInfo*> inputs;
  for (const proto::ValueInfo& input : graph_.input()) {
    if (!stored_.contains(input.name()) && readers_.contains(input.name())) inputs.push_back(&input);
  }
  if (inputs.size() != 1)
    throw Error(ErrorCode::invalid_option, "the model has " + std::to_string(inputs.size()) +
                                               " inputs that are read, and a network of Lockstep has one");
  const auto& sizes = inputs[0]->type().tensor_type().shape().dim();
  const std::string title = "the model's input " + name_text(inputs[0]->name());
  if (sizes.size() != 2 && sizes.size() != 3 && sizes.size() != 4)
    throw Error(ErrorCode::invalid_option,
                title + " has " + std::to_string(sizes.size()) +
                    " dimensions; Lockstep takes images [batch,channels,height,width] "
                    "and sequences [batch,channels,time]");
  if (sizes.size() == 2)
    throw Error(ErrorCode::invalid_option, title +
                                               " is a list of features [batch,features]; Lockstep takes "
                                               "images and sequences");
  const std::string labels = sizes.size() == 4 ? "NCHW" : "NCT";
  View input;
  for (int i = 0; i < sizes.size(); ++i) {
    const char label = labels[static_cast<size_t>(i)];
    int64_t size = is_open(sizes[i]) ? 0 : sizes[i].dim_value();
    if (size == 0 && label == 'N') size = kOpenBatch;
    if (size == 0 && label == 'T') size = kOpenTime;
    if (label == 'H' && options_.height > 0) size = options_.height;
    if (label == 'W' && options_.width > 0) size = options_.width;
    if (size == 0 && label == 'C')
      throw Error(ErrorCode::invalid_option, title + " leaves the number of channels open");
    if (size == 0)
      throw Error(ErrorCode::invalid_option, title + " leaves the size of the images open",
                  "name it: --image-size HxW");
    if (size > kMostSize) throw Error(ErrorCode::corrupt_data, title + " has a size of " + with_commas(size));
    input.axes.push_back({label, size});
  }
  found_.input = input;
  values_[inputs[0]->name()] = input;
}

std::vector<bool> Importer::needed_nodes() const {
  if (graph_.output_size() != 1)
    throw Error(ErrorCode::invalid_option, "the model has " + std::to_string(graph_.output_size()) +
                                               " outputs, and a network of Lockstep has one");
  std::unordered_map<std::string, bool> wanted{{graph_.output(0).name(), true}};
  std::vector<bool> needed(static_cast<size_t>(graph_.node_size()));
  // Operators are listed after what they read, as ONNX demands; run() finds those that are not.
  for (int i = graph_.node_size() - 1; i >= 0; --i) {
    const proto::Node& one = graph_.node(i);
    needed[static_cast<size_t>(i)] =
        std::any_of(one.output().begin(), one.output().end(),
                    [&](const auto& output) { return !output.empty() && wanted.contains(output); });
    if (!needed[static_cast<size_t>(i)]) continue;
    for (const std::string& input : one.input()) {
      if (!input.empty()) wanted.emplace(input, true);
    }
  }
  return needed;
}

void Importer::run(const proto::Node& one) {
  node_ = &one;
  bool unknown = false;
  for (const std::string& input : one.input()) {
    if (input.empty() || stored_.contains(input)) continue;
    const auto known = values_.find(input);
    if (known == values_.end())
      throw Error(ErrorCode::corrupt_data,
                  node_text(one) + " reads " + name_text(input) + ", which no operator before it gives");
    unknown = unknown || std::holds_alternative<Unknown>(known->second);
  }
  for (const std::string& output : one.output()) {
    if (output.empty()) continue;
    if (stored_.contains(output) || !values_.emplace(output, Unknown{}).second)
      throw Error(ErrorCode::corrupt_data, "two operators or tensors give " + name_text(output));
  }
  if (unknown) return;
  try {
    const std::string& op = one.op_type();
    const bool standard = one.domain().empty() || one.domain() == "ai.onnx";
    if (!standard)
      throw Unsupported{"it is of the domain " + name_text(one.domain()) + ", not an operator of ONNX"};
    if (import_constant(*this)) return;
    for (const auto find : {layer_operator, shape_operator, recurrent_operator, arithmetic_operator}) {
      if (const ImportNode import = find(op)) return import(*this);
    }
    throw Unsupported{"Lockstep has no such layer"};
  } catch (const Unsupported& unsupported) {
    if (problems_.size() < kMostProblems) problems_.push_back(node_text(one) + ": " + unsupported.reason);
    ++problem_count_;
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::corrupt_data,
                node_text(one) + " cannot be computed: " + first_line(error.what_without_backtrace()));
  }
}

void Importer::refuse_problems() const {
  const auto more = problem_count_ - static_cast<int64_t>(problems_.size());
  throw Error(ErrorCode::invalid_option,
              std::to_string(problem_count_) +
                  (problem_count_ == 1 ? " operator has no layer in Lockstep: "
                                       : " operators have no layer in Lockstep: ") +
                  join(problems_, "; ") + (more > 0 ? "; and " + std::to_string(more) + " more" : ""),
              "lockstep network show lists layers, and docs/exchange.md what can be imported");
}

void Importer::read_output() {
  const std::string& name = graph_.output(0).name();
  const auto value = values_.find(name);
  const View* view = value == values_.end() ? nullptr : std::get_if<View>(&value->second);
  if (view == nullptr || view->layer == kNetworkInput || !view->padding.empty())
    throw Error(ErrorCode::invalid_option,
                "the model's output " + name_text(name) + " is not computed from its input by a layer");
  View output = *view;
  std::string labels = output.labels();
  if (labels.find('H') != std::string::npos && labels.find('C') != std::string::npos) {
    for (const Axis& axis : output.axes) {
      if ((axis.label == 'H' || axis.label == 'W') && axis.size != 1)
        throw Error(ErrorCode::invalid_option,
                    "the model's output " + axes_text(output.axes) +
                        " is images; a network of Lockstep returns one number per class");
    }
    const Axis channels = output.axes[channel_axis(output).value()];
    output.layer = add_layer({.type = "flatten"}, {output});
    output.axes = {{'N', output.axes[0].size}, {'F', channels.size}};
    labels = "NF";
  }
  std::erase(labels, '1');
  std::sort(labels.begin(), labels.end());
  if (labels != "FN" && labels != "CNT")
    throw Error(ErrorCode::invalid_option, "the model's output " + axes_text(output.axes) +
                                               " is not one number per class, [batch,classes]");
  static_cast<void>(use(output));
  found_.output = output;
}

const Value& Importer::value(int index) {
  if (!has_input(index)) throw Unsupported{"input " + std::to_string(index + 1) + " is missing"};
  const std::string& name = node_->input(index);
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  return values_[name] = counted(tensors_.read(*stored_.at(name)));
}

const View& Importer::view(int index) {
  const auto* view = std::get_if<View>(&value(index));
  if (view == nullptr)
    throw Unsupported{"input " + std::to_string(index + 1) + " is not the output of a layer"};
  return *view;
}

at::Tensor Importer::constant(int index) {
  const Value& known = value(index);
  if (const auto* tensor = std::get_if<at::Tensor>(&known)) return *tensor;
  if (const auto* fill = std::get_if<Fill>(&known)) {
    int64_t count = 1;
    for (const int64_t size : fill->shape) {
      if (__builtin_mul_overflow(count, size, &count)) count = numbers_left_ + 1;
    }
    charge(count);
    return at::full(fill->shape, fill->value);
  }
  throw Unsupported{"input " + std::to_string(index + 1) + " is not a constant"};
}

std::optional<at::Tensor> Importer::optional_constant(int index) {
  return has_input(index) ? std::optional(constant(index)) : std::nullopt;
}

std::vector<int64_t> Importer::integers(int index) {
  const at::Tensor list = constant(index);
  if (list.numel() > kMostListed || list.is_floating_point())
    throw Unsupported{"input " + std::to_string(index + 1) + " is not a list of integers"};
  const at::Tensor values = list.to(at::kLong).contiguous().view({-1});
  const int64_t* data = values.const_data_ptr<int64_t>();
  return {data, data + values.numel()};
}

const proto::Attribute* Importer::attribute(const char* name) const {
  for (const proto::Attribute& one : node_->attribute()) {
    if (one.name() != name) continue;
    if (!one.ref_attr_name().empty()) throw Unsupported{"it is a part of a function"};
    return &one;
  }
  return nullptr;
}

int64_t Importer::integer_attribute(const char* name, int64_t otherwise) const {
  const proto::Attribute* one = attribute(name);
  return one == nullptr ? otherwise : one->i();
}

double Importer::number_attribute(const char* name, double otherwise) const {
  const proto::Attribute* one = attribute(name);
  return one == nullptr ? otherwise : as_meant(one->f());
}

std::string Importer::text_attribute(const char* name, const std::string& otherwise) const {
  const proto::Attribute* one = attribute(name);
  return one == nullptr ? otherwise : one->s();
}

std::vector<int64_t> Importer::integers_attribute(const char* name) const {
  const proto::Attribute* one = attribute(name);
  if (one == nullptr) return {};
  if (one->ints_size() > kMostListed) throw Unsupported{std::string(name) + " has too many numbers"};
  return {one->ints().begin(), one->ints().end()};
}

size_t Importer::add_layer(LayerDraft layer, const std::vector<View>& inputs) {
  for (const View& input : inputs) {
    if (!input.padding.empty()) throw Unsupported{"there is a Pad before it"};
    layer.inputs.push_back(use(input));
  }
  for (const auto& [name, tensor] : layer.tensors) {
    numbers_of_layers_ += tensor.numel();
    if (numbers_of_layers_ <= kMostShares * numbers_read_ + kMostMoreNumbers) continue;
    throw Error(ErrorCode::corrupt_data, "the layers would have " + with_commas(numbers_of_layers_) +
                                             " numbers or more, and the file has " +
                                             with_commas(numbers_read_) +
                                             ": too many layers share the same tensors");
  }
  layer.node_name = node_->name();
  found_.layers.push_back(std::move(layer));
  return found_.layers.size() - 1;
}

size_t Importer::use(const View& view) {
  if (view.layer == kNetworkInput) {
    use_normalization(view);
    return kNetworkInput;
  }
  if (view.recurrent != RecurrentOutput::none) {
    RecurrentOutput& chosen = found_.layers[view.layer].recurrent;
    if (chosen != RecurrentOutput::none && chosen != view.recurrent)
      throw Unsupported{"it reads the other output of a recurrent layer, which has one in Lockstep"};
    chosen = view.recurrent;
  }
  return view.layer;
}

void Importer::use_normalization(const View& view) {
  if (used_input_ && (used_input_->factor != view.factor || used_input_->shift != view.shift))
    throw Unsupported{"the input is read with and without normalisation"};
  if (!used_input_) used_input_ = view;
  if (view.factor.empty()) return;
  const bool images = found_.input.axes.size() == 4;
  const bool bytes = images && (is_own_ || takes_bytes(view));
  found_.mean.clear();
  found_.deviation.clear();
  for (size_t i = 0; i < view.factor.size(); ++i) {
    const double deviation = 1 / (view.factor[i] * (bytes ? 255 : 1));
    found_.deviation.push_back(as_meant(deviation));
    found_.mean.push_back(as_meant(-view.shift[i] * deviation) + 0.0);
  }
}

void Importer::set_output(int index, Value value) {
  if (index < node_->output_size() && !node_->output(index).empty())
    values_[node_->output(index)] = std::move(value);
}

bool Importer::is_only_reader(int index) const {
  const std::string& name = node_->input(index);
  return readers_.at(name).size() == 1 && name != graph_.output(0).name();
}

std::string Importer::reader_of_output() const {
  const auto found = node_->output_size() > 0 ? readers_.find(node_->output(0)) : readers_.end();
  return found != readers_.end() && found->second.size() == 1 ? found->second[0]->op_type() : "";
}

bool Importer::is_graph_output(int index) const {
  return index < node_->output_size() && node_->output(index) == graph_.output(0).name();
}

bool Importer::is_read(int index) const {
  return is_graph_output(index) || readers_.contains(node_->output(index));
}

at::Tensor Importer::attribute_tensor(const proto::Attribute& attribute) {
  return counted(tensors_.read(attribute.t()));
}

at::Tensor Importer::counted(at::Tensor tensor) {
  numbers_read_ += tensor.numel();
  return tensor;
}

void Importer::charge(int64_t numbers) {
  numbers_left_ -= numbers;
  if (numbers < 0 || numbers_left_ < 0) throw Unsupported{"its constants have too many numbers"};
}

}  // namespace lockstep::onnx
