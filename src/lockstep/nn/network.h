// What a network is to the rest of the program: a name, and a factory that makes instances for given input
// and classes.
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

/// The images a network takes, [b,C,H,W], or sequences [b,C,T], and the classes it tells apart.
struct NetworkInput {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;
  int64_t time_steps = 0;  ///< 0: images; else sequences, the longest of which has so many time steps (height
                           ///< and width are then 1)
  bool labels_time_steps = false;  ///< a class for each time step: logits are [b,classes,T]
  friend bool operator==(const NetworkInput&, const NetworkInput&) = default;
};

/// A mini-batch of sequences, padded to one length.
struct Sequences {
  at::Tensor values;         ///< [b,C,T]
  at::Tensor lengths;        ///< int64 [b] on the host: time steps that are no padding
  bool padded_left = false;  ///< padding stands before them, not after
  std::vector<at::Tensor> hidden_state =
      {};  ///< recurrent state to begin with, [b,...] for each of Instance::hidden_state; empty: zeros
};

struct SequenceOutput {
  at::Tensor logits = {};  ///< [b,classes], or [b,classes,T]; at padded time steps anything finite
  std::vector<at::Tensor> hidden_state =
      {};  ///< recurrent state after each sequence's last time step, detached from gradients
};

/// Sequences [b,C,T] without padding.
Sequences whole_sequences(const at::Tensor& values);

/// A part of a network's recurrent state, of one stream.
struct HiddenState {
  std::string name;            ///< e.g. "lstm.h"
  std::vector<int64_t> shape;  ///< without the batch: [layers,hidden]
};

/// A layer of a layer graph's instance, in the order of evaluation.
struct InstanceLayer {
  std::string name;
  bool random = false;  ///< in training it draws random numbers
  bool keeps_shards_apart =
      false;  ///< it takes several shards in one batch, or says where it cannot: shards_together.h
  bool ends_part = false;  ///< what comes after it takes nothing from before but its output
};

/// One instance: the module that owns parameters and buffers, and its forward function [b,C,H,W] -> logits
/// [b,classes].
struct Instance {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::function<SequenceOutput(const Sequences&)> forward_sequences =
      {};  ///< empty: the network takes no sequences
  std::vector<HiddenState> hidden_state = {};
  std::vector<InstanceLayer> layers = {};  ///< empty: a module of the user's own
  /// Of a layer graph of images: the layers layers[begin] to layers[end - 1], on the output of the one
  /// before.
  std::function<at::Tensor(const at::Tensor& input, size_t begin, size_t end)> forward_part = {};
  bool channels_last =
      false;  ///< of a module of the user's own: `forward` gives it images so, see module_instance.h
  std::vector<std::shared_ptr<torch::nn::Module>> held =
      {};  ///< frozen layers, in evaluation mode always; see freeze.h
};

/// A cheap value. make() may be called by any thread, also at once by several.
class Network {
 public:
  using Factory = std::function<Instance(const NetworkInput&)>;

  Network() = default;
  /// `spec` is what a manifest keeps: the layer graph, or null for a module of the user's own.
  Network(std::string name, Factory factory, Json spec = nullptr)
      : name_(std::move(name)), factory_(std::move(factory)), spec_(std::move(spec)) {}

  const std::string& name() const { return name_; }
  const Json& spec() const { return spec_; }
  bool empty() const { return factory_ == nullptr; }

  /// A new instance on the CPU in float32. Random initialisers draw from the calling thread's generator.
  Instance make(const NetworkInput& input) const { return factory_(input); }

 private:
  std::string name_;
  Factory factory_;
  Json spec_;
};

}  // namespace lockstep::nn
