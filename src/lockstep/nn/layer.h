// A layer type: its options, a check that gives the output's shape and counts, and a way to build it. To
// write your own: define a struct of options with `describe` and one plan function (layers/linear.h is a good
// model), then add a line to builtin.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/json.h"
#include "lockstep/kernels/joined_images.h"
#include "lockstep/kernels/window.h"

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// The shape for one sample, without the batch: an image [C,H,W], a sequence [C,T], or [features]. T is that
/// of the longest sequence; mini-batches have their own.
using Shape = std::vector<int64_t>;

/// "[20,24,24]"
std::string shape_text(const Shape& shape);

/// Maximum count of numbers that one layer may learn or return per image: 64 GB in float32.
inline constexpr int64_t kMostNumbers = int64_t{1} << 34;

/// Why a layer does not fit. Thrown by plan functions; the message continues `layer "conv1" (conv2d)`, for
/// example "needs ...".
struct Misfit {
  std::string message;
  std::string hint;
  bool too_small = false;  ///< a larger image could fit
};

/// The product of the sizes; throws a Misfit above kMostNumbers. `what` is for the message, for example
/// "weights".
int64_t checked_count(const Shape& shape, const std::string& what);

/// An input of a layer: the name of a layer (or "input") and the shape of its output.
struct LayerInput {
  std::string name;
  Shape shape;
};

/// Which time steps of a mini-batch of sequences are padding.
struct TimeSteps {
  at::Tensor lengths;        ///< int64 [b] on the host: time steps without padding
  bool padded_left = false;  ///< padding is before them, not after
};

/// The module that owns the layer's tensors (null if it has none), and its function from batches [b,...] to a
/// batch.
struct BuiltLayer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const std::vector<at::Tensor>&)> forward = {};
  /// Used instead of `forward` by layers with memory. The argument is the state that LayerPlan::hidden_state
  /// lists, [b,...] each or empty for zeros; it is replaced by the state after the last time step, detached
  /// from gradients.
  std::function<at::Tensor(const at::Tensor& input, const TimeSteps& steps,
                           std::vector<at::Tensor>& hidden_state)>
      forward_sequence{};
  /// Used instead of `forward` if a concatenation combined with a ReLU is the only reader of several layers.
  /// Such a layer may write its output, after the ReLU, into the joined images and return that part, or
  /// return its own output; the concatenation returns the whole images.
  std::function<at::Tensor(const std::vector<at::Tensor>& taken, const kernels::JoinedImages& joined)>
      forward_joined{};
};

/// A tensor of the layer, with its name in the state dict after the layer's name.
struct TensorPlan {
  std::string name;
  Shape shape;
};

/// A layer that fits its inputs. Nothing is allocated before build().
struct LayerPlan {
  std::string detail{};  ///< options as a short text
  Shape output{};
  std::vector<TensorPlan> learnables{};
  std::vector<TensorPlan> states{};        ///< running statistics
  std::vector<TensorPlan> hidden_state{};  ///< recurrent state of each stream, from one mini-batch to the
                                           ///< next, without the batch
  bool gives_logits = true;                ///< whether it may be the last layer
  bool output_is_reusable = false;  ///< backward does not need the output, so the next layer may overwrite it
  bool can_overwrite = false;       ///< build(true) makes a layer that overwrites its input
  bool random = false;              ///< draws random numbers in training
  bool keeps_shards_apart = false;  ///< the built layer accepts several shards in one batch, or says when it
                                    ///< does not: shards_together.h
  bool needs_whole_sequences = false;  ///< a sequence cut into pieces would give other outputs
  bool flattens = false;  ///< the built layer also accepts [b,C,H,W] if it was planned for [b,features]
  /// For convolutions: whether Lockstep's kernels run it on a CPU, for this number of images, in float32 or
  /// (half) bfloat16.
  std::function<bool(int64_t batch, bool half)> runs_direct{};
  std::function<BuiltLayer(bool overwrite)> build{};
  bool relu_may_precede = false;  ///< a ReLU of all inputs equals a ReLU of the output, as for a maximum
  std::function<BuiltLayer()> build_with_relu{};  ///< optional: the layer and the ReLU after it as one
  bool readers_take_relu =
      false;  ///< a reader that computes the ReLU after itself goes before build_with_relu
};

/// A row of the table in builtin.cpp.
struct LayerType {
  std::string name;
  std::vector<FieldInfo> options;
  /// Throws if an option is unknown or invalid, for any inputs.
  std::function<void(const Json& options)> check;
  std::function<LayerPlan(const Json& options, const std::vector<LayerInput>& inputs)> plan;
};

template <Described Options>
LayerType layer_type(std::string name, LayerPlan (*plan)(const Options&, const std::vector<LayerInput>&)) {
  const auto read = [](const Json& json) {
    Options options;
    read_json(json, options, "");
    return options;
  };
  return {std::move(name), fields_of<Options>(), [read](const Json& json) { read(json); },
          [read, plan](const Json& json, const std::vector<LayerInput>& inputs) {
            return plan(read(json), inputs);
          }};
}

/// For layers without options.
struct NoOptions {
  static constexpr auto describe = [](auto&, auto&&) {};
};

/// The input of a layer that has exactly one.
const LayerInput& only_input(const std::vector<LayerInput>& inputs);
/// The one input, which must be an image [C,H,W].
const LayerInput& image_input(const std::vector<LayerInput>& inputs);
/// The one input, which must be a sequence [C,T].
const LayerInput& sequence_input(const std::vector<LayerInput>& inputs);
/// The one input, which must not be a sequence; `why` continues "does not accept sequences: ".
const LayerInput& timeless_input(const std::vector<LayerInput>& inputs, const char* why);

/// Throws a Misfit unless a convolution with this number of groups fits its input and filters.
void check_groups(int64_t groups, int64_t filters, const LayerInput& input);

/// A height and a width. An option may give one number for both: `"kernel": 3` means `"kernel": [3, 3]`.
struct Pair {
  int64_t height = 0;
  int64_t width = 0;
};
/// Reads the option `name`; if it is empty, returns `fallback`.
Pair pair_of(const std::vector<int64_t>& values, const char* name, Pair fallback);
/// "5x5"
std::string pair_text(Pair pair);

/// The output [channels,H',W'] of windows over `input`; throws a Misfit with the sizes if no window fits.
Shape windowed_shape(const LayerInput& input, int64_t channels, const kernels::Window& rows,
                     const kernels::Window& columns);

}  // namespace lockstep::nn
