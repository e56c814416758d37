// What a type of layer is: options, a check that gives the output's shape and counts, and a way to build it.
// To write your own: a struct of options with `describe` and one plan function (layers/linear.h is the one to
// read), then a line in builtin.cpp.
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

/// Of one sample, without the batch: an image [C,H,W], a sequence [C,T], or [features]. T is the longest
/// sequence's; mini-batches have their own.
using Shape = std::vector<int64_t>;

/// "[20,24,24]"
std::string shape_text(const Shape& shape);

/// The most numbers that one layer may learn or give per image: 64 GB in float32.
inline constexpr int64_t kMostNumbers = int64_t{1} << 34;

/// Why a layer does not fit. Thrown by plan functions with a message that goes on from `layer "conv1"
/// (conv2d)`, e.g. "needs ...".
struct Misfit {
  std::string message;
  std::string hint;
  bool too_small = false;  ///< a larger image could fit
};

/// The product of the sizes; a Misfit when it is above kMostNumbers. `what` for the message, e.g. "weights".
int64_t checked_count(const Shape& shape, const std::string& what);

/// What a layer takes: a layer (or "input") and the shape of its output.
struct LayerInput {
  std::string name;
  Shape shape;
};

/// Which time steps of a mini-batch of sequences are padding.
struct TimeSteps {
  at::Tensor lengths;        ///< int64 [b] on the host: time steps that are none
  bool padded_left = false;  ///< padding stands before them, not after
};

/// The module that owns the layer's tensors (null where there is none), and its function from batches [b,...]
/// to a batch.
struct BuiltLayer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const std::vector<at::Tensor>&)> forward = {};
  /// Instead of `forward` in layers with memory. Takes the state that LayerPlan::hidden_state lists, [b,...]
  /// each or nothing for zeros, and leaves the state after the last time step there, detached from gradients.
  std::function<at::Tensor(const at::Tensor& input, const TimeSteps& steps,
                           std::vector<at::Tensor>& hidden_state)>
      forward_sequence{};
  /// Instead of `forward` where a concatenation and a ReLU in one read some layers and nobody else does. The
  /// layers may write into the joined images, with the ReLU done, and then give that part of them, or an
  /// output of their own as it is; the concatenation gives the images whole.
  std::function<at::Tensor(const std::vector<at::Tensor>& taken, const kernels::JoinedImages& joined)>
      forward_joined{};
};

/// A tensor the layer owns, as it is named in the state dict after the layer's name.
struct TensorPlan {
  std::string name;
  Shape shape;
};

/// A layer that fits its inputs. Nothing is allocated before build().
struct LayerPlan {
  std::string detail{};  ///< options in a few words
  Shape output{};
  std::vector<TensorPlan> learnables{};
  std::vector<TensorPlan> states{};        ///< running statistics
  std::vector<TensorPlan> hidden_state{};  ///< of each stream, from one mini-batch to the next: recurrent
                                           ///< state, without the batch
  bool gives_logits = true;                ///< may be the last layer
  bool output_is_reusable =
      false;                   ///< its backward does not need its output, so the next layer may overwrite it
  bool can_overwrite = false;  ///< build(true) makes a layer that overwrites its input
  bool random = false;         ///< in training it draws random numbers
  bool keeps_shards_apart = false;  ///< what it builds takes several shards in one batch, or says where it
                                    ///< cannot: shards_together.h
  bool flattens = false;  ///< what it builds also takes [b,C,H,W] where it was planned for [b,features]
  /// For convolutions: whether own kernels run it on a CPU, for this many images at once, in float32 or
  /// (half) bfloat16.
  std::function<bool(int64_t batch, bool half)> runs_direct{};
  std::function<BuiltLayer(bool overwrite)> build{};
  bool relu_may_precede =
      false;  ///< a ReLU of every input is a ReLU of the output, as with the largest of some numbers
  std::function<BuiltLayer()> build_with_relu{};  ///< where it is there: the layer and a ReLU after it in one
};

/// One row of the table in builtin.cpp.
struct LayerType {
  std::string name;
  std::vector<FieldInfo> options;
  /// Throws where an option is unknown or has a bad value, whatever the inputs.
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

/// The one input of a layer that takes one.
const LayerInput& only_input(const std::vector<LayerInput>& inputs);
/// The one input, which has to be an image [C,H,W].
const LayerInput& image_input(const std::vector<LayerInput>& inputs);
/// The one input, which has to be a sequence [C,T].
const LayerInput& sequence_input(const std::vector<LayerInput>& inputs);
/// The one input, which must not be a sequence; `why` goes on from "cannot take sequences: ".
const LayerInput& timeless_input(const std::vector<LayerInput>& inputs, const char* why);

/// A size for height and width. Options give one number for both, or two: `"kernel": 3` is `"kernel": [3,
/// 3]`.
struct Pair {
  int64_t height = 0;
  int64_t width = 0;
};
/// Reads the option `name`; an empty one gives `fallback`.
Pair pair_of(const std::vector<int64_t>& values, const char* name, Pair fallback);
/// "5x5"
std::string pair_text(Pair pair);

/// The output [channels,H',W'] of windows over `input`; a Misfit that names the sizes when there is no place
/// for one.
Shape windowed_shape(const LayerInput& input, int64_t channels, const kernels::Window& rows,
                     const kernels::Window& columns);

}  // namespace lockstep::nn
