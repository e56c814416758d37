// Makes a network from a user's torch::nn::Module. Includes LibTorch's module headers, so include it only in
// sources that define modules.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <torch/nn/module.h>

#include "lockstep/nn/module_instance.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

namespace module_detail {

template <class Made>
auto module_of(const Made& made) {
  if constexpr (requires { made.ptr(); }) {
    return made.ptr();
  } else {
    return made;
  }
}

template <class Module>
Instance instance_of(const Module& module, const NetworkInput& input) {
  constexpr bool is_module = std::is_convertible_v<Module, std::shared_ptr<torch::nn::Module>>;
  static_assert(is_module,
                "a network's function returns a torch::nn::ModuleHolder, as TORCH_MODULE makes it, or a "
                "std::shared_ptr to a subclass of torch::nn::Module, not a raw pointer and not a value");
  if constexpr (!is_module) {
    return {};
  } else if constexpr (requires(const Sequences& sequences) { module->forward(sequences); }) {
    const auto forward_sequences = [module](const Sequences& sequences) {
      return SequenceOutput{module->forward(sequences)};
    };
    const auto forward = [module](const at::Tensor& values) -> at::Tensor {
      return module->forward(whole_sequences(values));
    };
    return Instance{module, forward, forward_sequences};
  } else {
    constexpr bool has_forward = requires(const at::Tensor& images) { at::Tensor(module->forward(images)); };
    static_assert(has_forward,
                  "a network's module has a public member `Tensor forward(Tensor)`, or for sequences "
                  "`Tensor forward(const Sequences&)`");
    if constexpr (!has_forward) {
      return {};
    } else {
      return module_instance(
          module, [module](const at::Tensor& images) -> at::Tensor { return module->forward(images); },
          input);
    }
  }
}

}  // namespace module_detail

/// network<make_net>("my_net") or network("my_net", make_net): `make` takes a NetworkInput and returns a
/// torch::nn::ModuleHolder or a std::shared_ptr to a module with `Tensor forward(Tensor)`, or for sequences
/// `Tensor forward(const Sequences&)`. The name appears in manifests and messages. Images may be channels
/// last in memory: code that reads data_ptr() must call contiguous() first.
template <class Make>
Network network(std::string name, Make make) {
  constexpr bool takes_input = std::is_invocable_v<const Make&, const NetworkInput&>;
  static_assert(takes_input, "a network's function takes a const nn::NetworkInput&");
  if constexpr (takes_input) {
    return Network(std::move(name), [make](const NetworkInput& input) {
      const auto made = make(input);
      return module_detail::instance_of(module_detail::module_of(made), input);
    });
  } else {
    return {};
  }
}

template <auto make>
Network network(std::string name) {
  return network(std::move(name), make);
}

}  // namespace lockstep::nn
