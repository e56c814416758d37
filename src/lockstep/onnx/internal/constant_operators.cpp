// Operators whose inputs are all constants: shapes, and weights that were stored in another form.
#include <algorithm>
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/onnx/internal/importer.h"

namespace lockstep::onnx {
namespace {

constexpr int64_t kMostComputed = 1 << 16;  // numbers of a result that is computed and not only viewed

bool import_constant_node(Importer& importer) {
  if (const auto* tensor = importer.attribute("value")) {
    importer.set_output(0, importer.attribute_tensor(*tensor).clone());
  } else if (const auto* number = importer.attribute("value_float")) {
    importer.set_output(0, at::scalar_tensor(number->f()));
  } else if (const auto* integer = importer.attribute("value_int")) {
    importer.set_output(0, at::scalar_tensor(integer->i(), at::kLong));
  } else if (importer.attribute("value_ints") != nullptr) {
    importer.set_output(0, at::tensor(importer.integers_attribute("value_ints"), at::kLong));
  } else {
    throw Unsupported{"it is not a constant of numbers"};
  }
  return true;
}

/// ConstantOfShape, and Expand of equal numbers.
bool import_fill(Importer& importer) {
  const bool expands = importer.node().op_type() == "Expand";
  Fill fill{.value = 0, .shape = importer.integers(expands ? 1 : 0)};
  at::Tensor value = at::zeros({1});
  if (expands) {
    value = importer.constant(0);
  } else if (const auto* tensor = importer.attribute("value")) {
    value = importer.attribute_tensor(*tensor);
  }
  const bool even = value.numel() > 0 && value.numel() <= kMostComputed &&
                    value.eq(value.reshape({-1})[0]).all().item<bool>();
  if (!even) throw Unsupported{"it repeats a tensor of different numbers"};
  fill.value = value.reshape({-1})[0].to(at::kDouble).item<double>();
  if (std::any_of(fill.shape.begin(), fill.shape.end(), [](int64_t size) { return size < 0; }))
    throw Unsupported{"its shape has a negative size"};
  int64_t count = 1;
  for (const int64_t size : fill.shape) {
    if (__builtin_mul_overflow(count, size, &count)) count = kMostComputed + 1;
  }
  if (count > kMostComputed) {
    importer.set_output(0, fill);
  } else {
    importer.charge(count);
    importer.set_output(0, at::full(fill.shape, fill.value, value.options()));
  }
  return true;
}

at::Tensor computed(Importer& importer, const std::function<at::Tensor()>& compute, int64_t numbers) {
  if (numbers > kMostComputed) throw Unsupported{"it computes with large constants"};
  importer.charge(numbers);
  return compute();
}

/// The count of numbers that two constants make together.
int64_t broadcast_count(const at::Tensor& a, const at::Tensor& b) {
  int64_t count = 1;
  for (int64_t i = 1; i <= std::max(a.dim(), b.dim()); ++i) {
    const int64_t size = std::max(i <= a.dim() ? a.size(-i) : 1, i <= b.dim() ? b.size(-i) : 1);
    if (__builtin_mul_overflow(count, size, &count)) return kMostComputed + 1;
  }
  return count;
}

/// The places that a slice with this step takes, as in Python.
std::vector<int64_t> places_of(int64_t begin, int64_t end, int64_t step, int64_t size) {
  if (step == 0 || size > kMostComputed) throw Unsupported{"it takes steps of " + std::to_string(step)};
  const auto bounded = [&](int64_t place) {
    const int64_t counted = place < 0 ? std::max(place, -size - 1) + size : place;
    return step > 0 ? std::clamp<int64_t>(counted, 0, size) : std::clamp<int64_t>(counted, -1, size - 1);
  };
  const int64_t last = bounded(end), stride = std::clamp(step, -size - 1, size + 1);
  std::vector<int64_t> places;
  for (int64_t place = bounded(begin); step > 0 ? place < last : place > last; place += stride)
    places.push_back(place);
  return places;
}

at::Tensor sliced(Importer& importer) {
  const bool inputs = importer.version() >= 10;
  at::Tensor values = importer.constant(0);
  const auto begins = inputs ? importer.integers(1) : importer.integers_attribute("starts");
  const auto ends = inputs ? importer.integers(2) : importer.integers_attribute("ends");
  auto axes = !inputs                 ? importer.integers_attribute("axes")
              : importer.has_input(3) ? importer.integers(3)
                                      : std::vector<int64_t>{};
  const auto steps = importer.has_input(4) ? importer.integers(4) : std::vector<int64_t>{};
  for (size_t i = 0; axes.empty() && i < begins.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (begins.size() != axes.size() || ends.size() != axes.size())
    throw Unsupported{"its lists have different lengths"};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int64_t>(axis_of(axes[i], static_cast<size_t>(values.dim())));
    const int64_t step = i < steps.size() ? steps[i] : 1;
    if (step == 1) {
      values = values.slice(axis, begins[i], ends[i]);
    } else {
      importer.charge(values.numel());
      values = values.index_select(
          axis, at::tensor(places_of(begins[i], ends[i], step, values.size(axis)), at::kLong));
    }
  }
  return values;
}

at::Tensor with_axes(Importer& importer, bool adds) {
  at::Tensor values = importer.constant(0);
  auto axes = importer.has_input(1) ? importer.integers(1) : importer.integers_attribute("axes");
  if (!adds && axes.empty()) return values.squeeze();
  if (adds && values.dim() + static_cast<int64_t>(axes.size()) > 16)
    throw Unsupported{"it has too many axes"};
  const auto rank = static_cast<size_t>(values.dim()) + (adds ? axes.size() : 0);
  std::vector<int64_t> places;
  for (const int64_t axis : axes) places.push_back(static_cast<int64_t>(axis_of(axis, rank)));
  std::sort(places.begin(), places.end());
  if (!adds) std::reverse(places.begin(), places.end());
  for (const int64_t place : places) {
    if (!adds && values.size(place) != 1) throw Unsupported{"it removes an axis that is not of size 1"};
    values = adds ? values.unsqueeze(place) : values.squeeze(place);
  }
  return values;
}

at::Tensor transposed(Importer& importer) {
  const at::Tensor values = importer.constant(0);
  const auto order = importer.integers_attribute("perm");
  if (order.empty()) return values.numpy_T();
  return values.permute(order);
}

at::Tensor reshaped(Importer& importer) {
  const at::Tensor values = importer.constant(0);
  auto sizes = importer.integers(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && i < static_cast<size_t>(values.dim()))
      sizes[i] = values.size(static_cast<int64_t>(i));
  }
  if (!values.is_contiguous()) importer.charge(values.numel());
  return values.reshape(sizes);
}

at::Tensor concatenated(Importer& importer) {
  std::vector<at::Tensor> parts;
  int64_t count = 0;
  for (int i = 0; i < importer.node().input_size(); ++i) {
    parts.push_back(importer.constant(i));
    count += parts.back().numel();
  }
  if (parts.empty()) throw Unsupported{"it has no inputs"};
  return computed(
      importer, [&] { return at::cat(parts, importer.integer_attribute("axis", 0)); }, count);
}

at::Tensor gathered(Importer& importer) {
  const at::Tensor values = importer.constant(0), places = importer.constant(1).to(at::kLong);
  const auto axis =
      static_cast<int64_t>(axis_of(importer.integer_attribute("axis", 0), static_cast<size_t>(values.dim())));
  const int64_t size = values.size(axis);
  if (places.numel() > kMostComputed || values.numel() > kMostComputed)
    throw Unsupported{"it computes with large constants"};
  const at::Tensor flat = at::where(places < 0, places + size, places).reshape({-1});
  if (flat.numel() > 0 && (flat.min().item<int64_t>() < 0 || flat.max().item<int64_t>() >= size))
    throw Unsupported{"it takes parts that are not there"};
  std::vector<int64_t> shape(values.sizes().begin(), values.sizes().begin() + axis);
  shape.insert(shape.end(), places.sizes().begin(), places.sizes().end());
  shape.insert(shape.end(), values.sizes().begin() + axis + 1, values.sizes().end());
  int64_t count = 1;
  for (const int64_t one : shape) count = std::min<int64_t>(count, kMostComputed + 1) * one;
  return computed(
      importer, [&] { return values.index_select(axis, flat).reshape(shape); }, count);
}

at::Tensor elementwise(Importer& importer) {
  const std::string& op = importer.node().op_type();
  const at::Tensor a = importer.constant(0), b = importer.constant(1);
  return computed(
      importer,
      [&] {
        if (op == "Add") return at::add(a, b);
        if (op == "Sub") return at::sub(a, b);
        if (op == "Mul") return at::mul(a, b);
        if (a.is_floating_point()) return at::div(a, b);
        if (b.eq(0).any().item<bool>()) throw Unsupported{"it divides by 0"};
        return at::div(a, b, "trunc");
      },
      broadcast_count(a, b));
}

at::Tensor cast(Importer& importer) {
  const at::Tensor values = importer.constant(0);
  const int64_t to = importer.integer_attribute("to", 0);
  if (to != 1 && to != 6 && to != 7 && to != 11)
    throw Unsupported{"it converts to type " + std::to_string(to)};
  importer.charge(values.numel());
  return values.to(to == 1 ? at::kFloat : to == 6 ? at::kInt : to == 7 ? at::kLong : at::kDouble);
}

at::Tensor shape_of_constant(Importer& importer) {
  const auto sizes = importer.constant(0).sizes().vec();
  if (importer.integer_attribute("start", 0) != 0 || importer.attribute("end") != nullptr)
    throw Unsupported{"it takes a part of a shape"};
  return at::tensor(sizes, at::kLong);
}

struct ConstantOperator {
  const char* op;
  at::Tensor (*compute)(Importer& importer);
};
constexpr std::array kConstantOperators{
    ConstantOperator{"Identity", [](Importer& importer) { return importer.constant(0); }},
    ConstantOperator{"Cast", cast},
    ConstantOperator{"Reshape", reshaped},
    ConstantOperator{"Transpose", transposed},
    ConstantOperator{"Squeeze", [](Importer& importer) { return with_axes(importer, false); }},
    ConstantOperator{"Unsqueeze", [](Importer& importer) { return with_axes(importer, true); }},
    ConstantOperator{"Concat", concatenated},
    ConstantOperator{"Slice", sliced},
    ConstantOperator{"Gather", gathered},
    ConstantOperator{"Shape", shape_of_constant},
    ConstantOperator{"Add", elementwise},
    ConstantOperator{"Sub", elementwise},
    ConstantOperator{"Mul", elementwise},
    ConstantOperator{"Div", elementwise},
};

/// A part of a Fill is a Fill.
bool import_part_of_fill(Importer& importer) {
  const auto* fill = importer.has_input(0) ? std::get_if<Fill>(&importer.value(0)) : nullptr;
  if (fill == nullptr) return false;
  const std::string& op = importer.node().op_type();
  if (op != "Slice" && op != "Identity") throw Unsupported{"it computes with large constants"};
  importer.set_output(0, Fill{fill->value, {}});
  return true;
}

}  // namespace

bool import_constant(Importer& importer) {
  const std::string& op = importer.node().op_type();
  if (op == "Constant") return import_constant_node(importer);
  for (int i = 0; i < importer.node().input_size(); ++i) {
    if (!importer.has_input(i)) continue;
    const Value& value = importer.value(i);
    if (!std::holds_alternative<at::Tensor>(value) && !std::holds_alternative<Fill>(value)) return false;
  }
  if (op == "ConstantOfShape" || op == "Expand") return import_fill(importer);
  if (import_part_of_fill(importer)) return true;
  for (const ConstantOperator& one : kConstantOperators) {
    if (one.op != op) continue;
    importer.set_output(0, one.compute(importer));
    return true;
  }
  return false;
}

}  // namespace lockstep::onnx
