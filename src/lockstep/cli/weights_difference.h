// Compares two sets of weights bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/safetensors.h"

namespace lockstep::cli {

/// A tensor that differs.
struct TensorDifference {
  std::string name;
  std::string note;  ///< why the elements cannot be compared ("only in the first one", shapes); else empty
  int64_t elements = 0;
  int64_t different = 0;  ///< number of elements with different bits
  double largest = 0;     ///< largest absolute difference; NaN when an element is NaN in one of them
};

/// In the order of `a`, followed by tensors that only `b` has. Empty when names, types, shapes and bits are
/// equal.
std::vector<TensorDifference> different_tensors(const nn::NamedTensors& a, const nn::NamedTensors& b);

/// Whether the tensors are equal one by one, in their order: types, shapes and bits. Names do not matter.
bool are_equal_without_names(const nn::NamedTensors& a, const nn::NamedTensors& b);

/// One hash of names, shapes and bits.
uint64_t weights_hash(const nn::NamedTensors& weights);

}  // namespace lockstep::cli
