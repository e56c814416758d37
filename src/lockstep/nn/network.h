// A network as the rest of the program sees it: a name, and a factory that makes instances for a given input
// and number of classes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/json.h"

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// A network's input: images [b,C,H,W] or sequences [b,C,T], and the number of classes that it distinguishes.
struct NetworkInput {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;
  int64_t time_steps = 0;  ///< 0: images; otherwise sequences whose longest one has this many time steps
                           ///< (height and width are then 1)
  bool labels_time_steps = false;  ///< one class per time step: logits are [b,classes,T]
  friend bool operator==(const NetworkInput&, const NetworkInput&) = default;
};

/// A mini-batch of sequences, padded to one length.
struct Sequences {
  at::Tensor values;         ///< [b,C,T]
  at::Tensor lengths;        ///< int64 [b] on the host: time steps without padding
  bool padded_left = false;  ///< padding is before them, not after
  std::vector<at::Tensor> hidden_state =
      {};  ///< initial recurrent state, [b,...] for each of Instance::hidden_state; empty: zeros
};

struct SequenceOutput {
  at::Tensor logits = {};  ///< [b,classes], or [b,classes,T]; finite but arbitrary at padded time steps
  std::vector<at::Tensor> hidden_state =
      {};  ///< recurrent state after each sequence's last time step, detached from gradients
};

/// Sequences [b,C,T] without padding.
Sequences whole_sequences(const at::Tensor& values);

/// A part of a network's recurrent state for one stream.
struct HiddenState {
  std::string name;            ///< e.g. "lstm.h"
  std::vector<int64_t> shape;  ///< without the batch: [layers,hidden]
};

/// A layer of a layer graph's instance, in the order of evaluation.
struct InstanceLayer {
  std::string name;
  bool random = false;  ///< draws random numbers in training
  bool keeps_shards_apart =
      false;  ///< accepts several shards in one batch, or says when it does not: shards_together.h
  bool needs_whole_sequences = false;     ///< a sequence cut into pieces would give other outputs
  bool ends_part = false;                 ///< later layers need only its output, and nothing from before it
  std::vector<std::string> read_by = {};  ///< layers that have its output as their input
  int64_t output_count = 0;               ///< numbers in its output for one sample, of the longest sequence
};

/// Receives the output of each layer as soon as forward has made it; layer: its place in Instance::layers.
using LayerObserver = std::function<void(size_t layer, const at::Tensor& output)>;

/// One instance: the module that owns parameters and buffers, and its forward function [b,C,H,W] -> logits
/// [b,classes].
struct Instance {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<SequenceOutput(const Sequences&)> forward_sequences =
      {};  ///< empty: the network does not accept sequences
  std::vector<HiddenState> hidden_state = {};
  std::vector<InstanceLayer> layers = {};  ///< empty: a user's module
  /// For a layer graph of images: runs layers[begin] to layers[end - 1] on the output of the layer before
  /// them.
  std::function<at::Tensor(const at::Tensor& input, size_t begin, size_t end)> forward_part = {};
  /// For a layer graph: from now on, forward in any form tells the observer; an empty one ends that.
  std::function<void(LayerObserver)> observe = {};
  bool channels_last =
      false;  ///< for a user's module: `forward` passes images channels last, see module_instance.h
  std::vector<std::shared_ptr<torch::nn::Module>> held =
      {};  ///< frozen layers, always in evaluation mode; see freeze.h
};

/// Cheap to copy. make() may be called by any thread, also by several at once.
class Network {
 public:
  using Factory = std::function<Instance(const NetworkInput&)>;

  Network() = default;
  /// `spec` is stored in manifests: the layer graph, or null for a user's module.
  Network(std::string name, Factory factory, Json spec = nullptr)
      : name_(std::move(name)), factory_(std::move(factory)), spec_(std::move(spec)) {}

  const std::string& name() const { return name_; }
  const Json& spec() const { return spec_; }
  bool empty() const { return factory_ == nullptr; }

  /// A new instance on the CPU in float32. Random initializers draw from the calling thread's generator.
  Instance make(const NetworkInput& input) const { return factory_(input); }

 private:
  std::string name_;
  Factory factory_;
  Json spec_;
};

}  // namespace lockstep::nn
