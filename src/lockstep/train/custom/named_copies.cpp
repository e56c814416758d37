#include "lockstep/train/custom/internal/named_copies.h"

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <c10/util/StringUtil.h>

#include "lockstep/base/error.h"

namespace lockstep::train {

std::vector<at::Tensor> tensors_of(const nn::NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

void copy_named(const nn::NamedTensors& live, const nn::NamedTensors& saved, const std::string& what) {
  for (const auto& [name, tensor] : live) {
    const auto found = std::find_if(saved.begin(), saved.end(),
                                    [&, &name = name](const auto& one) { return one.first == name; });
    const bool is_missing = found == saved.end();
    if (is_missing || found->second.sizes() != tensor.sizes())
      throw Error(ErrorCode::invalid_option,
                  std::string("the run's checkpoint has ") + (is_missing ? "no " : "") + what + " \"" + name +
                      "\"" + (is_missing ? "" : " of " + c10::str(found->second.sizes())) + "; here it has " +
                      c10::str(tensor.sizes()),
                  "resume with the network and the optimizer that the run began with");
    at::Tensor(tensor).detach().copy_(found->second);
  }
}

nn::NamedTensors copies_of(const nn::NamedTensors& tensors) {
  nn::NamedTensors result;
  for (const auto& [name, tensor] : tensors)
    result.emplace_back(name,
                        tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous());
  return result;
}

}  // namespace lockstep::train
