// ONNX's operators that change the axes of a value, or join values.
#include <algorithm>
#include <array>

#include <ATen/Functions.h>

#include "lockstep/onnx/internal/importer.h"

namespace lockstep::onnx {
namespace {

void import_identity(Importer& importer) { importer.set_output(0, importer.value(0)); }

void import_cast(Importer& importer) {
  constexpr int64_t kFloat = 1;
  if (importer.integer_attribute("to", 0) != kFloat)
    throw Unsupported{"it converts to another type than float32"};
  import_identity(importer);
}

/// [batch,C,H,W] becomes [batch,features] by a layer.
View flattened(Importer& importer, const View& view) {
  View result = view;
  result.layer = importer.add_layer({.type = "flatten"}, {view});
  result.axes = {view.axes[0], {'F', view.axes[1].size * view.axes[2].size * view.axes[3].size}};
  result.factor = result.shift = {};
  return result;
}

/// The first input, whose sizes are those of its axes.
const View& unpadded_view(Importer& importer) {
  const View& view = importer.view(0);
  if (!view.padding.empty()) throw Unsupported{"there is a Pad before it"};
  return view;
}

bool is_image(const View& view) { return view.labels() == "NCHW" && view.padding.empty(); }

void import_flatten(Importer& importer) {
  const View view = importer.view(0);
  if (axis_of(importer.integer_attribute("axis", 1), view.axes.size() + 1) != 1 || view.labels()[0] != 'N')
    throw Unsupported{"its axis is not 1"};
  if (is_image(view)) return importer.set_output(0, flattened(importer, view));
  if (view.labels() != "NF") throw Unsupported{"it flattens " + axes_text(view.axes)};
  importer.set_output(0, view);
}

void import_transpose(Importer& importer) {
  View view = unpadded_view(importer);
  auto order = importer.integers_attribute("perm");
  if (order.empty()) {
    for (size_t i = view.axes.size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  }
  std::vector<bool> used(view.axes.size());
  const std::vector<Axis> before = view.axes;
  if (order.size() != before.size()) throw Unsupported{"perm does not list its axes"};
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t from = axis_of(order[i], before.size());
    if (used[from]) throw Unsupported{"perm lists an axis twice"};
    used[from] = true;
    view.axes[i] = before[from];
  }
  importer.set_output(0, view);
}

std::vector<int64_t> listed_axes(Importer& importer) {
  return importer.has_input(1) ? importer.integers(1) : importer.integers_attribute("axes");
}

/// Without the axes `gone`, each of size 1.
View without(Importer& importer, const View& view, const std::vector<bool>& gone) {
  View left = view;
  left.axes.clear();
  std::string dropped;
  for (size_t i = 0; i < view.axes.size(); ++i) {
    if (!gone[i]) {
      left.axes.push_back(view.axes[i]);
      continue;
    }
    if (view.axes[i].size != 1) throw Unsupported{"it removes an axis of " + axes_text(view.axes)};
    if (view.axes[i].label != '1') dropped += view.axes[i].label;
  }
  if (dropped.empty()) return left;
  std::sort(dropped.begin(), dropped.end());
  if (dropped != "HW" || !is_image(view)) throw Unsupported{"it removes an axis of " + axes_text(view.axes)};
  return flattened(importer, view);
}

void import_squeeze(Importer& importer) {
  const View view = importer.view(0);
  const auto axes = listed_axes(importer);
  std::vector<bool> gone(view.axes.size());
  for (const int64_t axis : axes) gone[axis_of(axis, view.axes.size())] = true;
  for (size_t i = 0; axes.empty() && i < gone.size(); ++i)
    gone[i] = view.axes[i].size == 1 && view.axes[i].label != 'N';
  importer.set_output(0, without(importer, view, gone));
}

void import_unsqueeze(Importer& importer) {
  View view = importer.view(0);
  const auto axes = listed_axes(importer);
  const size_t rank = view.axes.size() + axes.size();
  std::vector<bool> added(rank);
  for (const int64_t axis : axes) {
    const size_t place = axis_of(axis, rank);
    if (added[place]) throw Unsupported{"it inserts an axis twice"};
    added[place] = true;
  }
  const std::vector<Axis> before = view.axes;
  view.axes.clear();
  for (size_t i = 0, next = 0; i < rank; ++i) view.axes.push_back(added[i] ? Axis{} : before[next++]);
  importer.set_output(0, view);
}

int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result)) throw Unsupported{"its shape is too large"};
  return result;
}

/// The sizes that a Reshape gives.
std::vector<int64_t> reshaped_sizes(Importer& importer, const View& view) {
  std::vector<int64_t> sizes =
      importer.has_input(1) ? importer.integers(1) : importer.integers_attribute("shape");
  int64_t total = 1, known = 1, open = -1;
  for (const Axis& axis : view.axes) total = product(total, axis.size);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && importer.integer_attribute("allowzero", 0) == 0 && i < view.axes.size())
      sizes[i] = view.axes[i].size;
    if (sizes[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else {
      known = product(known, sizes[i]);
    }
  }
  if (open >= 0) {
    if (known == 0 || total % known != 0) throw Unsupported{"its shape does not fit " + axes_text(view.axes)};
    sizes[static_cast<size_t>(open)] = total / known;
  } else if (known != total) {
    throw Unsupported{"its shape does not fit " + axes_text(view.axes)};
  }
  return sizes;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::vector<Axis> axes;
  for (const int64_t size : sizes) axes.push_back({size == kOpenBatch ? 'N' : '1', size});
  return axes_text(axes);
}

void import_reshape(Importer& importer) {
  View view = unpadded_view(importer);
  const std::vector<int64_t> sizes = reshaped_sizes(importer, view);
  if (is_image(view) && sizes.size() == 2 && sizes[0] == view.axes[0].size)
    return importer.set_output(0, flattened(importer, view));
  // Otherwise only axes of size 1 may come and go.
  const std::vector<Axis> before = view.axes;
  view.axes.clear();
  size_t next = 0;
  for (const int64_t size : sizes) {
    while (next < before.size() && before[next].size != size && before[next].label == '1') ++next;
    if (next < before.size() && before[next].size == size) {
      view.axes.push_back(before[next++]);
    } else if (size == 1) {
      view.axes.push_back({});
    } else {
      throw Unsupported{"it changes the shape " + axes_text(before) + " to " + sizes_text(sizes)};
    }
  }
  for (; next < before.size(); ++next) {
    if (before[next].label != '1')
      throw Unsupported{"it changes the shape " + axes_text(before) + " to " + sizes_text(sizes)};
  }
  importer.set_output(0, view);
}

void import_shape(Importer& importer) {
  const View& view = unpadded_view(importer);
  const auto rank = static_cast<int64_t>(view.axes.size());
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t value = importer.integer_attribute(name, otherwise);
    return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  std::vector<int64_t> sizes;
  for (int64_t i = bound("start", 0); i < bound("end", rank); ++i)
    sizes.push_back(view.axes[static_cast<size_t>(i)].size);
  importer.set_output(0, at::tensor(sizes, at::kLong));
}

/// The hidden states of several layers, one after the other along the first axis.
bool stack_states(Importer& importer, size_t axis) {
  Stack stack;
  for (int i = 0; i < importer.node().input_size(); ++i) {
    const View& view = importer.view(i);
    if (axis != 0 || view.recurrent != RecurrentOutput::last || view.labels() != "1NF") return false;
    stack.views.push_back(view);
  }
  importer.set_output(0, stack);
  return true;
}

void import_concat(Importer& importer) {
  View result = importer.view(0);
  const size_t axis = axis_of(importer.integer_attribute("axis", 1), result.axes.size());
  if (stack_states(importer, axis)) return;
  const auto channels = channel_axis(result);
  if (!channels || axis != *channels) throw Unsupported{"it does not join channels"};
  std::vector<View> views;
  int64_t count = 0;
  for (int i = 0; i < importer.node().input_size(); ++i) {
    const View& view = importer.view(i);
    std::vector<Axis> expected = result.axes;
    if (view.axes.size() == expected.size()) expected[axis].size = view.axes[axis].size;
    if (view.axes != expected || !view.padding.empty())
      throw Unsupported{"it joins " + axes_text(result.axes) + " and " + axes_text(view.axes)};
    count += view.axes[axis].size;
    views.push_back(view);
  }
  if (views.size() == 1) return import_identity(importer);
  result = {.layer = importer.add_layer({.type = "concatenate"}, views), .axes = result.axes};
  result.axes[axis].size = count;
  importer.set_output(0, result);
}

/// The output of a recurrent layer after the last time step, from its outputs at all of them.
View last_step(const View& view, size_t axis, bool keeps_axis) {
  View result = view;
  result.recurrent = RecurrentOutput::last;
  for (Axis& one : result.axes) {
    if (one.label == 'C') one.label = 'F';
  }
  if (keeps_axis) {
    result.axes[axis] = {};
  } else {
    result.axes.erase(result.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return result;
}

void import_gather(Importer& importer) {
  const at::Tensor index = importer.constant(1);
  if (index.numel() != 1 || index.dim() > 1 || index.is_floating_point())
    throw Unsupported{"it takes several parts"};
  const auto number = index.item<int64_t>();
  const int64_t axis_number = importer.integer_attribute("axis", 0);
  if (const auto* stack = std::get_if<Stack>(&importer.value(0))) {
    View view = stack->views[axis_of(number, stack->views.size())];
    if (axis_number != 0) throw Unsupported{"it takes a part of several states"};
    if (index.dim() == 0) view.axes.erase(view.axes.begin());
    return importer.set_output(0, view);
  }
  const View view = importer.view(0);
  const size_t axis = axis_of(axis_number, view.axes.size());
  const Axis& along = view.axes[axis];
  if (along.label == '1' && (number == 0 || number == -1)) {
    std::vector<bool> gone(view.axes.size());
    gone[axis] = index.dim() == 0;
    return importer.set_output(0, without(importer, view, gone));
  }
  const bool last = number == -1 || number == along.size - 1;
  if (along.label != 'T' || !last || view.recurrent != RecurrentOutput::sequence)
    throw Unsupported{"it takes a part of " + axes_text(view.axes) +
                      ", which is not the last time step of an LSTM or GRU"};
  importer.set_output(0, last_step(view, axis, index.dim() == 1));
}

void import_slice(Importer& importer) {
  constexpr int64_t kFar = 1 << 30;
  const View view = unpadded_view(importer);
  const bool inputs = importer.version() >= 10;
  const auto begins = inputs ? importer.integers(1) : importer.integers_attribute("starts");
  const auto ends = inputs ? importer.integers(2) : importer.integers_attribute("ends");
  auto axes = !inputs                 ? importer.integers_attribute("axes")
              : importer.has_input(3) ? importer.integers(3)
                                      : std::vector<int64_t>{};
  const auto steps = importer.has_input(4) ? importer.integers(4) : std::vector<int64_t>{};
  for (size_t i = 0; axes.empty() && i < begins.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (begins.size() != axes.size() || ends.size() != axes.size() ||
      (!steps.empty() && steps.size() != axes.size()))
    throw Unsupported{"its lists have different lengths"};
  View result = view;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axis_of(axes[i], view.axes.size());
    const int64_t size = result.axes[axis].size;
    if (!steps.empty() && steps[i] != 1) throw Unsupported{"it takes steps of " + std::to_string(steps[i])};
    if (begins[i] == 0 && (ends[i] >= size || ends[i] > kFar)) continue;
    const bool last = (begins[i] == -1 || begins[i] == size - 1) && (ends[i] >= size || ends[i] > kFar);
    if (!last || result.axes[axis].label != 'T' || result.recurrent != RecurrentOutput::sequence)
      throw Unsupported{"it takes a part of " + axes_text(view.axes)};
    result = last_step(result, axis, true);
  }
  importer.set_output(0, result);
}

// Zeros around images, which the convolution or pooling after it takes over.
void import_pad(Importer& importer) {
  View view = importer.view(0);
  if (importer.text_attribute("mode", "constant") != "constant")
    throw Unsupported{"it does not pad with zeros"};
  const auto pads = importer.has_input(1) ? importer.integers(1) : importer.integers_attribute("pads");
  const auto filler = importer.optional_constant(2);
  const double value = filler && filler->numel() == 1 ? filler->to(at::kDouble).item<double>()
                                                      : importer.number_attribute("value", 0);
  if (value != 0 || importer.has_input(3)) throw Unsupported{"it does not pad with zeros on all axes"};
  if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; }))
    return import_identity(importer);
  if (!is_image(view) || pads.size() != 8 || pads[0] != 0 || pads[1] != 0 || pads[4] != 0 || pads[5] != 0)
    throw Unsupported{"it pads other axes than height and width"};
  view.padding = {pads[2], pads[3], pads[6], pads[7]};
  for (const int64_t pad : view.padding) {
    if (pad < 0 || pad > 10'000) throw Unsupported{"its padding is " + std::to_string(pad)};
  }
  importer.set_output(0, view);
}

struct ShapeOperator {
  const char* op;
  ImportNode import;
};
constexpr std::array kShapeOperators{
    ShapeOperator{"Identity", import_identity}, ShapeOperator{"Cast", import_cast},
    ShapeOperator{"Flatten", import_flatten},   ShapeOperator{"Transpose", import_transpose},
    ShapeOperator{"Squeeze", import_squeeze},   ShapeOperator{"Unsqueeze", import_unsqueeze},
    ShapeOperator{"Reshape", import_reshape},   ShapeOperator{"Shape", import_shape},
    ShapeOperator{"Concat", import_concat},     ShapeOperator{"Gather", import_gather},
    ShapeOperator{"Slice", import_slice},       ShapeOperator{"Pad", import_pad},
};

}  // namespace

ImportNode shape_operator(const std::string& op) {
  for (const ShapeOperator& one : kShapeOperators) {
    if (one.op == op) return one.import;
  }
  return nullptr;
}

}  // namespace lockstep::onnx
