// Two sets of weights, compared bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/safetensors.h"

namespace lockstep::cli {

/// A tensor that is not the same in both.
struct TensorDifference {
  std::string name;
  std::string note;  ///< why the elements cannot be compared ("only in the first", shapes); else empty
  int64_t elements = 0;
  int64_t different = 0;  ///< elements with other bits
  double largest = 0;     ///< largest absolute difference; NaN when an element is NaN in one
};

/// In the order of `a`, then what only `b` has. Empty when names, types, shapes and bits are equal.
std::vector<TensorDifference> different_tensors(const nn::NamedTensors& a, const nn::NamedTensors& b);

/// One number for names, shapes and bits.
uint64_t weights_hash(const nn::NamedTensors& weights);

}  // namespace lockstep::cli
