// ONNX's operators that are layers of Lockstep by themselves.
#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/base/text.h"
#include "lockstep/onnx/internal/importer.h"

namespace lockstep::onnx {
namespace {

/// An elementwise function, which keeps the axes.
void import_function(Importer& importer, const char* type, Json options = Json::object()) {
  View view = importer.view(0);
  view.layer = importer.add_layer({.type = type, .options = std::move(options)}, {view});
  view.recurrent = RecurrentOutput::none;
  view.factor = view.shift = {};
  importer.set_output(0, view);
}

template <const char* kType>
void import_plain(Importer& importer) {
  import_function(importer, kType);
}
constexpr char kReluType[] = "relu", kTanhType[] = "tanh", kSigmoidType[] = "sigmoid";

void import_gelu(Importer& importer) {
  if (importer.text_attribute("approximate", "none") != "none")
    throw Unsupported{"Lockstep's gelu is the exact one, and this one is an approximation"};
  import_function(importer, "gelu");
}

void import_leaky_relu(Importer& importer) {
  import_function(importer, "leaky_relu", {{"slope", importer.number_attribute("alpha", 0.01)}});
}

double limit_of(Importer& importer, const char* name, int input, double otherwise) {
  if (importer.version() < 11) return importer.number_attribute(name, otherwise);
  const auto limit = importer.optional_constant(input);
  if (!limit) return otherwise;
  if (limit->numel() != 1) throw Unsupported{"its limits are not numbers"};
  return limit->to(at::kDouble).item<double>();
}

void import_clip(Importer& importer) {
  constexpr double kNoLimit = 3e38;
  const double low = limit_of(importer, "min", 1, -kNoLimit), high = limit_of(importer, "max", 2, kNoLimit);
  if (low == 0 && high == 6) return import_function(importer, "relu6");
  if (low == 0 && high >= kNoLimit) return import_function(importer, "relu");
  throw Unsupported{"it clips to " + shortest(low) + " .. " + shortest(high) + ", and Lockstep has 0 .. 6"};
}

// Runtimes do not draw; training does.
void import_dropout(Importer& importer) {
  double probability = 0.5;
  if (importer.version() < 12) {
    probability = importer.number_attribute("ratio", 0.5);
  } else if (const auto ratio = importer.optional_constant(1)) {
    if (ratio->numel() != 1) throw Unsupported{"its ratio is not a number"};
    probability = as_meant(ratio->to(at::kDouble).item<double>());
  }
  import_function(importer, "dropout", {{"probability", probability}});
}

void import_softmax(Importer& importer) {
  const View view = importer.view(0);
  const auto channels = channel_axis(view);
  const int64_t axis = importer.integer_attribute("axis", importer.version() < 13 ? 1 : -1);
  if (!channels || axis_of(axis, view.axes.size()) != *channels)
    throw Unsupported{"its axis is not that of the channels"};
  // Before version 13 it goes over all axes from this one on.
  const bool one_axis = std::all_of(view.axes.begin() + static_cast<std::ptrdiff_t>(*channels) + 1,
                                    view.axes.end(), [](const Axis& after) { return after.size == 1; });
  if (importer.version() < 13 && !one_axis)
    throw Unsupported{"it goes over all axes of " + axes_text(view.axes) + " from the channels on"};
  if (!importer.is_graph_output(0)) return import_function(importer, "softmax");
  importer.note("the last " + importer.node().op_type() +
                " is left out: a network of Lockstep returns logits, and predict applies softmax itself");
  importer.set_output(0, view);
}

void import_log_softmax(Importer& importer) {
  if (!importer.is_graph_output(0)) throw Unsupported{"Lockstep has no such layer"};
  import_softmax(importer);
}

/// The output after a layer that makes [channels,height,width].
View image_view(const View& before, size_t layer, const std::array<int64_t, 3>& shape) {
  return {.layer = layer, .axes = {before.axes[0], {'C', shape[0]}, {'H', shape[1]}, {'W', shape[2]}}};
}

void check_is_image(const View& view) {
  if (view.labels() != "NCHW")
    throw Unsupported{"its input is not images [batch,channels,height,width], but " + axes_text(view.axes) +
                      (view.labels() == "NHWC" ? " with the channels last" : "")};
}

/// Windows over height or width.
struct Side {
  int64_t in = 0, kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t count(bool ceil) const {
    const int64_t room = in + begin + end - reach();
    if (room < 0) return 0;
    int64_t windows = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    // The last window must begin in the image or in the padding before it.
    if (ceil && (windows - 1) * stride >= in + begin) --windows;
    return windows;
  }
};

int64_t bounded(int64_t value, int64_t least, const char* what) {
  if (value < least || value > 10'000) throw Unsupported{std::string(what) + " is " + std::to_string(value)};
  return value;
}

std::array<Side, 2> sides_of(Importer& importer, const View& view, const std::vector<int64_t>& kernel) {
  if (kernel.size() != 2)
    throw Unsupported{"its windows have " + std::to_string(kernel.size()) + " dimensions, not two"};
  const auto two = [&](const char* name) {
    auto list = importer.integers_attribute(name);
    if (list.empty()) list = {1, 1};
    if (list.size() != 2)
      throw Unsupported{std::string(name) + " has " + std::to_string(list.size()) + " numbers"};
    return list;
  };
  const auto strides = two("strides"), dilations = two("dilations");
  auto pads = importer.integers_attribute("pads");
  if (pads.empty()) pads = {0, 0, 0, 0};
  if (pads.size() != 4) throw Unsupported{"pads has " + std::to_string(pads.size()) + " numbers"};
  const std::string automatic = importer.text_attribute("auto_pad", "NOTSET");
  std::array<Side, 2> sides;
  for (size_t i = 0; i < 2; ++i) {
    sides[i] = {.in = view.axes[2 + i].size,
                .kernel = bounded(kernel[i], 1, "its kernel"),
                .stride = bounded(strides[i], 1, "its stride"),
                .dilation = bounded(dilations[i], 1, "its dilation"),
                .begin = bounded(pads[i], 0, "its padding"),
                .end = bounded(pads[2 + i], 0, "its padding")};
    if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") continue;
    const int64_t windows = (sides[i].in + sides[i].stride - 1) / sides[i].stride;
    const int64_t whole =
        std::max<int64_t>(0, (windows - 1) * sides[i].stride + sides[i].reach() - sides[i].in);
    sides[i].begin = automatic == "SAME_UPPER" ? whole / 2 : (whole + 1) / 2;
    sides[i].end = whole - sides[i].begin;
  }
  if (automatic == "VALID") sides[0].begin = sides[0].end = sides[1].begin = sides[1].end = 0;
  return sides;
}

Json pair_json(int64_t first, int64_t second) {
  return first == second ? Json(first) : Json::array({first, second});
}

/// The options that convolutions and pooling share.
Json window_options(const std::array<Side, 2>& sides, int64_t usual_stride) {
  const auto& [rows, columns] = sides;
  Json options{{"kernel", pair_json(rows.kernel, columns.kernel)}};
  if (usual_stride == 0 || rows.stride != usual_stride || columns.stride != usual_stride)
    options["stride"] = pair_json(rows.stride, columns.stride);
  if (rows.begin != 0 || columns.begin != 0) options["padding"] = pair_json(rows.begin, columns.begin);
  if (rows.dilation != 1 || columns.dilation != 1)
    options["dilation"] = pair_json(rows.dilation, columns.dilation);
  return options;
}

std::string sides_text(const Side& rows, const Side& columns) {
  return std::to_string(rows.begin) + " above, " + std::to_string(rows.end) + " below, " +
         std::to_string(columns.begin) + " at the left and " + std::to_string(columns.end) + " at the right";
}

void import_convolution(Importer& importer) {
  const View view = importer.view(0);
  check_is_image(view);
  const at::Tensor weight = importer.constant(1);
  if (weight.dim() != 4)
    throw Unsupported{"its weight has " + std::to_string(weight.dim()) +
                      " dimensions, and Lockstep's conv2d has four"};
  auto kernel = importer.integers_attribute("kernel_shape");
  if (kernel.empty()) kernel = {weight.size(2), weight.size(3)};
  auto sides = sides_of(importer, view, kernel);
  if (!view.padding.empty()) {
    sides[0].begin += view.padding[0];
    sides[1].begin += view.padding[1];
    sides[0].end += view.padding[2];
    sides[1].end += view.padding[3];
  }
  auto& [rows, columns] = sides;
  if (rows.begin != rows.end || columns.begin != columns.end)
    throw Unsupported{"its padding is " + sides_text(rows, columns) +
                      ", and Lockstep's is equal on both sides"};
  const int64_t groups = bounded(importer.integer_attribute("group", 1), 1, "its number of groups");
  if (weight.size(1) * groups != view.axes[1].size)
    throw Unsupported{"its weight takes " + std::to_string(weight.size(1) * groups) +
                      " channels, and its input " + axes_text(view.axes) + " has " +
                      std::to_string(view.axes[1].size)};
  Json options{{"filters", weight.size(0)}};
  options.update(window_options(sides, 1));
  if (groups != 1) options["groups"] = groups;
  LayerDraft draft{.type = "conv2d", .options = std::move(options), .tensors = {{"weight", weight}}};
  draft.tensor_name = importer.tensor_name(1);
  const auto bias = importer.optional_constant(2);
  if (bias) draft.tensors.emplace_back("bias", *bias);
  if (!bias) draft.options["bias"] = false;
  View plain = view;
  plain.padding = {};
  const std::array<int64_t, 3> shape{weight.size(0), rows.count(false), columns.count(false)};
  importer.set_output(0, image_view(view, importer.add_layer(std::move(draft), {plain}), shape));
}

/// Whether windows that reach beyond the end are those of ceil_mode.
bool is_ceil_mode(const std::array<Side, 2>& sides, bool ceil, const std::array<int64_t, 2>& counts) {
  bool same = true;
  for (size_t i = 0; i < 2; ++i) {
    Side even = sides[i];
    even.end = even.begin;
    same = same && even.count(true) == counts[i] && sides[i].end >= sides[i].begin;
  }
  return same && (ceil || sides[0].end != sides[0].begin || sides[1].end != sides[1].begin);
}

/// The window options of a pooling layer; `ceil_counts`: whether windows beyond the end may be counted.
Json pool_options(Importer& importer, const std::array<Side, 2>& sides, std::array<int64_t, 2>& counts) {
  const bool ceil = importer.integer_attribute("ceil_mode", 0) != 0;
  for (size_t i = 0; i < 2; ++i) counts[i] = sides[i].count(ceil);
  Json options = window_options(sides, 0);
  if (sides[0].stride == sides[0].kernel && sides[1].stride == sides[1].kernel) options.erase("stride");
  const bool even = sides[0].begin == sides[0].end && sides[1].begin == sides[1].end;
  const bool floor_fits = even && sides[0].count(false) == counts[0] && sides[1].count(false) == counts[1];
  if (floor_fits) return options;
  if (!is_ceil_mode(sides, ceil, counts))
    throw Unsupported{"its padding is " + sides_text(sides[0], sides[1]) +
                      ", and Lockstep's is equal on both sides"};
  options["ceil_mode"] = true;
  return options;
}

void import_max_pool(Importer& importer) {
  const View view = importer.view(0);
  check_is_image(view);
  if (importer.node().output_size() > 1 && !importer.node().output(1).empty())
    throw Unsupported{"it also gives the places of the maxima"};
  const auto sides = sides_of(importer, view, importer.integers_attribute("kernel_shape"));
  std::array<int64_t, 2> counts{};
  Json options = pool_options(importer, sides, counts);
  const size_t layer = importer.add_layer({.type = "max_pool", .options = std::move(options)}, {view});
  importer.set_output(0, image_view(view, layer, {view.axes[1].size, counts[0], counts[1]}));
}

/// Whether the windows divide the images, which then can be adaptive_average_pool.
bool divides(const std::array<Side, 2>& sides) {
  return std::all_of(sides.begin(), sides.end(), [](const Side& side) {
    return side.begin == 0 && side.end == 0 && side.stride == side.kernel && side.in % side.kernel == 0;
  });
}

void import_average_pool(Importer& importer) {
  View view = importer.view(0);
  check_is_image(view);
  auto sides = sides_of(importer, view, importer.integers_attribute("kernel_shape"));
  if (importer.integers_attribute("dilations") != std::vector<int64_t>{} &&
      (sides[0].dilation != 1 || sides[1].dilation != 1))
    throw Unsupported{"its windows are dilated"};
  std::array<int64_t, 2> counts{};
  const bool counts_padding = importer.integer_attribute("count_include_pad", 0) != 0;
  const bool pads = sides[0].begin + sides[0].end + sides[1].begin + sides[1].end > 0;
  Json options;
  if (!view.padding.empty()) {
    // Padding that counts, and beyond it some that does not: ceil_mode.
    if (pads && counts_padding) throw Unsupported{"there is a Pad before it"};
    for (size_t i = 0; i < 2; ++i) {
      if (sides[i].begin != 0 || view.padding[i] != view.padding[2 + i])
        throw Unsupported{"its padding is not equal on both sides"};
      sides[i].begin = view.padding[i];
      sides[i].end += view.padding[i];
    }
    options = pool_options(importer, sides, counts);
    view.padding = {};
  } else {
    const bool begins = sides[0].begin > 0 || sides[1].begin > 0;
    const bool even = sides[0].begin == sides[0].end && sides[1].begin == sides[1].end;
    // In Lockstep padding counts in the means, but not what only the windows of ceil_mode reach.
    if (counts_padding && !even) throw Unsupported{"its padding is not equal on both sides"};
    if (!counts_padding && begins)
      throw Unsupported{"its padding does not count in the means, and in Lockstep it does"};
    options = pool_options(importer, sides, counts);
  }
  const std::string reader = importer.reader_of_output();
  const bool to_features = reader == "Flatten" || reader == "Reshape";
  LayerDraft draft{.type = "average_pool", .options = std::move(options)};
  // In front of linear layers it makes a fixed number of features, as torchvision's AlexNet and VGG.
  if (to_features && divides(sides))
    draft = {.type = "adaptive_average_pool", .options = {{"size", pair_json(counts[0], counts[1])}}};
  const size_t layer = importer.add_layer(std::move(draft), {view});
  importer.set_output(0, image_view(view, layer, {view.axes[1].size, counts[0], counts[1]}));
}

void import_global_average_pool(Importer& importer) {
  const View view = importer.view(0);
  check_is_image(view);
  const size_t layer = importer.add_layer({.type = "global_average_pool"}, {view});
  importer.set_output(0, image_view(view, layer, {view.axes[1].size, 1, 1}));
}

void import_reduce_mean(Importer& importer) {
  const View view = importer.view(0);
  auto axes = importer.integers_attribute("axes");
  if (importer.has_input(1)) axes = importer.integers(1);
  std::string labels;
  for (const int64_t axis : axes) labels += view.axes[axis_of(axis, view.axes.size())].label;
  std::sort(labels.begin(), labels.end());
  if (labels != "HW" || view.labels() != "NCHW")
    throw Unsupported{"it is no mean over the height and width of images"};
  const size_t layer = importer.add_layer({.type = "global_average_pool"}, {view});
  View result = image_view(view, layer, {view.axes[1].size, 1, 1});
  if (importer.integer_attribute("keepdims", 1) == 0) {
    result.layer = importer.add_layer({.type = "flatten"}, {result});
    result.axes = {view.axes[0], {'F', view.axes[1].size}};
  }
  importer.set_output(0, result);
}

void import_batch_norm(Importer& importer) {
  View view = importer.view(0);
  if (importer.integer_attribute("training_mode", 0) != 0) throw Unsupported{"it is in training mode"};
  if (view.axes.size() < 2 || (view.axes[1].label != 'C' && view.axes[1].label != 'F') ||
      view.labels().find('T') != std::string::npos)
    throw Unsupported{"its input is " + axes_text(view.axes) + ", and not images or features"};
  LayerDraft draft{.type = "batch_norm"};
  draft.options = {{"epsilon", importer.number_attribute("epsilon", 1e-5)},
                   {"momentum", as_meant(1 - importer.number_attribute("momentum", 0.9))}};
  const std::array<const char*, 4> names{"weight", "bias", "running_mean", "running_var"};
  for (size_t i = 0; i < names.size(); ++i)
    draft.tensors.emplace_back(names[i], importer.constant(static_cast<int>(i) + 1));
  draft.tensors.emplace_back("num_batches_tracked", at::zeros({}, at::kLong));
  draft.tensor_name = importer.tensor_name(1);
  view.layer = importer.add_layer(std::move(draft), {view});
  view.factor = view.shift = {};
  importer.set_output(0, view);
}

void import_response_norm(Importer& importer) {
  View view = importer.view(0);
  check_is_image(view);
  const int64_t size = importer.integer_attribute("size", 0);
  if (size < 1 || size % 2 == 0)
    throw Unsupported{"its size is " + std::to_string(size) +
                      ", and only odd sizes mean the same in Lockstep"};
  view.layer = importer.add_layer({.type = "local_response_norm",
                                   .options = {{"size", size},
                                               {"alpha", importer.number_attribute("alpha", 1e-4)},
                                               {"beta", importer.number_attribute("beta", 0.75)},
                                               {"k", importer.number_attribute("bias", 1.0)}}},
                                  {view});
  importer.set_output(0, view);
}

struct LayerOperator {
  const char* op;
  ImportNode import;
};
constexpr std::array kLayerOperators{
    LayerOperator{"Conv", import_convolution},
    LayerOperator{"Relu", import_plain<kReluType>},
    LayerOperator{"Clip", import_clip},
    LayerOperator{"LeakyRelu", import_leaky_relu},
    LayerOperator{"Tanh", import_plain<kTanhType>},
    LayerOperator{"Sigmoid", import_plain<kSigmoidType>},
    LayerOperator{"Gelu", import_gelu},
    LayerOperator{"Softmax", import_softmax},
    LayerOperator{"LogSoftmax", import_log_softmax},
    LayerOperator{"Dropout", import_dropout},
    LayerOperator{"MaxPool", import_max_pool},
    LayerOperator{"AveragePool", import_average_pool},
    LayerOperator{"GlobalAveragePool", import_global_average_pool},
    LayerOperator{"ReduceMean", import_reduce_mean},
    LayerOperator{"BatchNormalization", import_batch_norm},
    LayerOperator{"LRN", import_response_norm},
};

}  // namespace

ImportNode layer_operator(const std::string& op) {
  for (const LayerOperator& one : kLayerOperators) {
    if (one.op == op) return one.import;
  }
  return nullptr;
}

}  // namespace lockstep::onnx
