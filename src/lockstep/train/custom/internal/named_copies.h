// Named tensors between a custom loop and its checkpoints.
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/safetensors.h"

namespace lockstep::train {

/// The tensors themselves, not copies.
std::vector<at::Tensor> tensors_of(const nn::NamedTensors& named);

/// Copies the values of `saved` into the tensors of the same names in `live`. `what` is one of them, for
/// messages. Throws invalid_option for a tensor that is missing or has another size.
void copy_named(const nn::NamedTensors& live, const nn::NamedTensors& saved, const std::string& what);

/// Contiguous copies on the CPU, without graphs.
nn::NamedTensors copies_of(const nn::NamedTensors& tensors);

}  // namespace lockstep::train
