// What a network is to the rest of the program: a name, and a factory that makes instances for given input and classes.
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

/// The pictures a network takes, [b,C,H,W], and the classes it tells apart.
struct NetworkInput {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;
  friend bool operator==(const NetworkInput&, const NetworkInput&) = default;
};

/// One instance: the module that owns parameters and buffers, and its forward function [b,C,H,W] -> logits [b,classes].
struct Instance {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// A cheap value. make() may be called by any thread, also at once by several.
class Network {
 public:
  using Factory = std::function<Instance(const NetworkInput&)>;

  Network() = default;
  /// `spec` is what a manifest keeps: the layer graph, or null for a module of the user's own.
  Network(std::string name, Factory factory, Json spec = nullptr) : name_(std::move(name)), factory_(std::move(factory)), spec_(std::move(spec)) {}

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
