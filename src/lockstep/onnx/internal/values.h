// What is known of a value of an ONNX graph while it is imported.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/json.h"

namespace lockstep::onnx {

/// Stand for sizes that a file leaves open; no real size is equal to them.
inline constexpr int64_t kOpenBatch = 1'000'003;
inline constexpr int64_t kOpenTime = 999'983;

/// The number with the fewest digits that rounds to the same float32, because what was meant was rounded to
/// it: 0.229, not 0.22900000214576721.
inline double as_meant(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(number));
  double meant = number;
  std::from_chars(text, end.ptr, meant);
  return meant;
}

/// The network's input, used in place of the index of a layer.
inline constexpr size_t kNetworkInput = static_cast<size_t>(-1);

/// 'N' batch, 'C' channels, 'H' height, 'W' width, 'T' time steps, 'F' features, '1' inserted, of size 1.
struct Axis {
  char label = '1';
  int64_t size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

enum class RecurrentOutput { none, sequence, last };

/// The output of an imported layer, with its axes in some order.
struct View {
  size_t layer = kNetworkInput;
  std::vector<Axis> axes;
  RecurrentOutput recurrent = RecurrentOutput::none;  ///< which of the outputs of an LSTM or GRU
  std::vector<int64_t> padding = {};                  ///< of zeros, top, left, bottom, right, not yet applied
  std::vector<double> factor = {};  ///< of the network's input: value = factor * input + shift, per channel
  std::vector<double> shift = {};

  std::string labels() const {
    std::string text;
    for (const Axis& axis : axes) text += axis.label;
    return text;
  }
};

/// One number in a shape; too large to be stored.
struct Fill {
  double value = 0;
  std::vector<int64_t> shape;
};

/// Outputs of several recurrent layers along a new first axis.
struct Stack {
  std::vector<View> views;
};

/// A part of the exact GELU, x * (1 + erf(x / sqrt(2))) / 2.
struct GeluPart {
  enum Stage { scaled, erf, share, product } stage;
  View input;
};

/// Follows from a node that cannot be imported.
struct Unknown {};

using Value = std::variant<Unknown, View, at::Tensor, Fill, Stack, GeluPart>;

/// A layer before it has a name.
struct LayerDraft {
  std::string type;
  Json options = Json::object();
  std::vector<size_t> inputs = {};  ///< drafts, or kNetworkInput
  std::vector<std::pair<std::string, at::Tensor>> tensors = {};
  std::string tensor_name = {};  ///< of its weight in the file
  std::string node_name = {};
  RecurrentOutput recurrent = RecurrentOutput::none;  ///< of an LSTM or GRU, the output that is used
};

}  // namespace lockstep::onnx
