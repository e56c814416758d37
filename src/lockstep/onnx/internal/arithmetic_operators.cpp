// Products and sums of ONNX: linear layers, biases, the addition of layers, the exact GELU, and the
// normalisation of the input.
#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/onnx/internal/importer.h"

namespace lockstep::onnx {
namespace {

bool is_near(double value, double wanted) { return std::abs(value - wanted) < 1e-5; }

bool is_number(const Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  return tensor != nullptr && tensor->numel() == 1;
}

double number_of(const Value& value) { return std::get<at::Tensor>(value).to(at::kDouble).item<double>(); }

/// One number per channel, from a constant that broadcasts along the channels only.
std::optional<at::Tensor> per_channel(const View& view, const at::Tensor& constant) {
  const auto channels = channel_axis(view);
  const auto rank = static_cast<int64_t>(view.axes.size());
  if (!channels || constant.dim() > rank) return std::nullopt;
  const int64_t count = view.axes[*channels].size;
  if (constant.numel() != 1 && constant.numel() != count) return std::nullopt;
  const int64_t missing = rank - constant.dim();
  for (int64_t i = 0; i < constant.dim(); ++i) {
    if (constant.size(i) != 1 && i + missing != static_cast<int64_t>(*channels)) return std::nullopt;
  }
  return constant.reshape({-1}).expand({count}).contiguous();
}

void import_linear(Importer& importer, const View& view, at::Tensor weight, std::optional<at::Tensor> bias) {
  const auto channels = channel_axis(view);
  const auto in = view.axes[channels.value()].size;
  if (weight.size(1) != in)
    throw Unsupported{"its weight takes " + std::to_string(weight.size(1)) + " features, and its input " +
                      axes_text(view.axes) + " has " + std::to_string(in)};
  LayerDraft draft{.type = "linear", .options = {{"features", weight.size(0)}}};
  if (!bias) draft.options["bias"] = false;
  View result{.layer = kNetworkInput, .axes = view.axes};
  result.axes[*channels].size = weight.size(0);
  draft.tensors.emplace_back("weight", std::move(weight));
  if (bias) draft.tensors.emplace_back("bias", std::move(*bias));
  for (int i = 0; i < importer.node().input_size(); ++i) {
    const std::string name = importer.tensor_name(i);
    if (name.ends_with(".weight")) draft.tensor_name = name;
  }
  result.layer = importer.add_layer(std::move(draft), {view});
  importer.set_output(0, result);
}

void import_gemm(Importer& importer) {
  const View view = importer.view(0);
  if (view.labels() != "NF" || importer.integer_attribute("transA", 0) != 0)
    throw Unsupported{"its first input is " + axes_text(view.axes) + ", and not features"};
  at::Tensor weight = importer.constant(1);
  if (weight.dim() != 2) throw Unsupported{"its second input is no matrix"};
  if (importer.integer_attribute("transB", 0) == 0) weight = weight.t();
  const double alpha = importer.number_attribute("alpha", 1), beta = importer.number_attribute("beta", 1);
  if (alpha != 1) weight = weight * alpha;
  std::optional<at::Tensor> bias = importer.optional_constant(2);
  if (bias) {
    if (bias->numel() != 1 && (bias->numel() != weight.size(0) || bias->size(-1) != weight.size(0)))
      throw Unsupported{"its third input is not one number per output"};
    bias = bias->reshape({-1}).expand({weight.size(0)});
    if (beta != 1) bias = *bias * beta;
  }
  import_linear(importer, view, weight, bias);
}

void import_matrix_product(Importer& importer) {
  const bool weight_first = std::holds_alternative<at::Tensor>(importer.value(0));
  const View view = importer.view(weight_first ? 1 : 0);
  at::Tensor weight = importer.constant(weight_first ? 0 : 1);
  if (weight.dim() != 2) throw Unsupported{"it is no product with a constant matrix"};
  const std::string labels = view.labels();
  const bool fits = weight_first ? labels == "NCT" : labels == "NF" || labels == "NTC" || labels == "TNC";
  if (!fits) throw Unsupported{"it multiplies " + axes_text(view.axes) + ", which a linear layer does not"};
  import_linear(importer, view, weight_first ? weight : weight.t(), std::nullopt);
}

/// A constant that is added to the output of a convolution or linear layer without a bias.
bool import_bias(Importer& importer, int place, const at::Tensor& constant) {
  const View& view = importer.view(place);
  if (view.layer == kNetworkInput || !importer.is_only_reader(place)) return false;
  LayerDraft& layer = importer.layer(view.layer);
  if ((layer.type != "conv2d" && layer.type != "linear") || layer.tensors.size() != 1) return false;
  const auto bias = per_channel(view, constant);
  if (!bias) return false;
  layer.tensors.emplace_back("bias", *bias);
  layer.options.erase("bias");
  importer.set_output(0, view);
  return true;
}

/// value = factor * input + shift of the network's input.
bool import_normalization(Importer& importer, int place, const at::Tensor& constant) {
  View view = importer.view(place);
  const std::string& op = importer.node().op_type();
  if (view.layer != kNetworkInput || (place == 1 && (op == "Sub" || op == "Div"))) return false;
  const auto numbers = per_channel(view, constant.to(at::kDouble));
  if (!numbers) return false;
  const auto count = static_cast<size_t>(numbers->numel());
  if (view.factor.empty()) {
    view.factor.assign(count, 1);
    view.shift.assign(count, 0);
  }
  for (size_t i = 0; i < count; ++i) {
    const double number = numbers->const_data_ptr<double>()[i];
    if (op == "Add") view.shift[i] += number;
    if (op == "Sub") view.shift[i] -= number;
    const double factor = op == "Mul" ? number : op == "Div" ? 1 / number : 1;
    view.factor[i] *= factor;
    view.shift[i] *= factor;
    if (!std::isfinite(view.factor[i]) || !std::isfinite(view.shift[i]) || view.factor[i] <= 0)
      throw Unsupported{"it normalises the input by " + std::to_string(number)};
  }
  importer.set_output(0, view);
  return true;
}

/// Whether `view` passes on unchanged.
bool changes_nothing(const std::string& op, const at::Tensor& constant) {
  const double neutral = op == "Mul" || op == "Div" ? 1 : 0;
  return constant.numel() == 1 && constant.to(at::kDouble).item<double>() == neutral;
}

bool import_gelu_part(Importer& importer) {
  const std::string& op = importer.node().op_type();
  const Value &first = importer.value(0), &second = importer.value(1);
  const auto* view = std::get_if<View>(&first);
  if (view != nullptr && is_number(second) && importer.reader_of_output() == "Erf") {
    const double number = number_of(second);
    const bool scales =
        (op == "Div" && is_near(number, std::sqrt(2.0))) || (op == "Mul" && is_near(number, std::sqrt(0.5)));
    if (scales) importer.set_output(0, GeluPart{GeluPart::scaled, *view});
    return scales;
  }
  const bool swapped = std::holds_alternative<GeluPart>(second);
  const auto* part = std::get_if<GeluPart>(swapped ? &second : &first);
  if (part == nullptr) return false;
  const Value& other = swapped ? first : second;
  const auto* other_view = std::get_if<View>(&other);
  if (part->stage == GeluPart::erf && op == "Add" && is_number(other) && number_of(other) == 1) {
    importer.set_output(0, GeluPart{GeluPart::share, part->input});
  } else if (part->stage == GeluPart::share && op == "Mul" && other_view != nullptr &&
             other_view->layer == part->input.layer && other_view->axes == part->input.axes) {
    importer.set_output(0, GeluPart{GeluPart::product, part->input});
  } else if (part->stage == GeluPart::product && op == "Mul" && is_number(other) && number_of(other) == 0.5) {
    View result = part->input;
    result.layer = importer.add_layer({.type = "gelu"}, {result});
    result.recurrent = RecurrentOutput::none;
    importer.set_output(0, result);
  } else {
    throw Unsupported{"it uses a part of a GELU in another way"};
  }
  return true;
}

void import_erf(Importer& importer) {
  const auto* part = std::get_if<GeluPart>(&importer.value(0));
  if (part == nullptr || part->stage != GeluPart::scaled)
    throw Unsupported{"it is not a part of an exact GELU"};
  importer.set_output(0, GeluPart{GeluPart::erf, part->input});
}

void import_sum(Importer& importer) {
  std::vector<View> views;
  for (int i = 0; i < importer.node().input_size(); ++i) {
    views.push_back(importer.view(i));
    if (views[0].axes != views.back().axes || !views.back().padding.empty())
      throw Unsupported{"it adds " + axes_text(views[0].axes) + " and " + axes_text(views.back().axes)};
  }
  if (views.size() == 1) return importer.set_output(0, views[0]);
  importer.set_output(0, View{.layer = importer.add_layer({.type = "add"}, views), .axes = views[0].axes});
}

/// Add, Sub, Mul and Div.
void import_elementwise(Importer& importer) {
  const std::string& op = importer.node().op_type();
  if (importer.node().input_size() != 2) throw Unsupported{"it does not have two inputs"};
  if (import_gelu_part(importer)) return;
  for (const int place : {0, 1}) {
    const auto* constant = std::get_if<at::Tensor>(&importer.value(1 - place));
    if (constant == nullptr || !std::holds_alternative<View>(importer.value(place))) continue;
    const at::Tensor numbers = *constant;
    if (changes_nothing(op, numbers) && (place == 0 || op == "Add" || op == "Mul"))
      return importer.set_output(0, importer.view(place));
    if (!importer.view(place).padding.empty()) throw Unsupported{"there is a Pad before it"};
    if (op == "Add" && import_bias(importer, place, numbers)) return;
    if (import_normalization(importer, place, numbers)) return;
    throw Unsupported{"it changes a layer's output by a constant"};
  }
  if (op != "Add") throw Unsupported{"Lockstep has no layer that does this with two layers"};
  import_sum(importer);
}

struct ArithmeticOperator {
  const char* op;
  ImportNode import;
};
constexpr std::array kArithmeticOperators{
    ArithmeticOperator{"Gemm", import_gemm},       ArithmeticOperator{"MatMul", import_matrix_product},
    ArithmeticOperator{"Add", import_elementwise}, ArithmeticOperator{"Sub", import_elementwise},
    ArithmeticOperator{"Mul", import_elementwise}, ArithmeticOperator{"Div", import_elementwise},
    ArithmeticOperator{"Erf", import_erf},         ArithmeticOperator{"Sum", import_sum},
};

}  // namespace

ImportNode arithmetic_operator(const std::string& op) {
  for (const ArithmeticOperator& one : kArithmeticOperators) {
    if (one.op == op) return one.import;
  }
  return nullptr;
}

}  // namespace lockstep::onnx
