// Makes a network from a user's torch::nn::Module. Includes LibTorch's module headers, so include it only in
// sources that define modules.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <torch/nn/module.h>

#include "lockstep/nn/module_instance.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// network<make_net>("my_net") or network("my_net", make_net): `make` takes a NetworkInput and returns a
/// torch::nn::ModuleHolder or a std::shared_ptr to a module with `Tensor forward(Tensor)`, or for sequences
/// `Tensor forward(const Sequences&)`. The name appears in manifests and messages. Images may be channels
/// last in memory: code that reads data_ptr() must call contiguous() first.
template <class Make>
Network network(std::string name, Make make) {
  return Network(std::move(name), [make](const NetworkInput& input) {
    auto made = make(input);
    auto module = [&] {
      if constexpr (requires { made.ptr(); }) {
        return made.ptr();
      } else {
        return made;
      }
    }();
    if constexpr (requires(const Sequences& sequences) { module->forward(sequences); }) {
      const auto forward_sequences = [module](const Sequences& sequences) {
        return SequenceOutput{module->forward(sequences)};
      };
      const auto forward = [module](const at::Tensor& values) -> at::Tensor {
        return module->forward(whole_sequences(values));
      };
      return Instance{module, forward, forward_sequences};
    } else {
      return module_instance(
          module, [module](const at::Tensor& images) -> at::Tensor { return module->forward(images); },
          input);
    }
  });
}

template <auto make>
Network network(std::string name) {
  return network(std::move(name), make);
}

}  // namespace lockstep::nn
