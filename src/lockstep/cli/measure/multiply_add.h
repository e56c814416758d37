// Measures how fast a core multiplies and adds when nothing else limits it. Other rates are given as a share
// of this one.
#pragma once

#include <cstdint>

namespace lockstep::cli::measure {

/// Multiplies and adds in registers only, `rounds` times a fixed amount. Returns the number of floating-point
/// operations.
struct MultiplyAdd {
  double (*run)(int64_t rounds);
};

/// The function for the vector unit that this project's kernels use.
const MultiplyAdd& multiply_add();

extern const MultiplyAdd multiply_add_plain;
extern const MultiplyAdd multiply_add_avx2;
extern const MultiplyAdd multiply_add_avx512;

}  // namespace lockstep::cli::measure
