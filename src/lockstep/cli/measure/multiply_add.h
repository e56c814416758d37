// How fast a core multiplies and adds when nothing else is in its way: the limit that every other rate is a
// share of.
#pragma once

#include <cstdint>

namespace lockstep::cli::measure {

/// Multiplies and adds in registers alone, `rounds` times a fixed amount; gives the floating-point operations
/// done.
struct MultiplyAdd {
  double (*run)(int64_t rounds);
};

/// The one for the vector unit that kernels of this project use.
const MultiplyAdd& multiply_add();

extern const MultiplyAdd multiply_add_plain;
extern const MultiplyAdd multiply_add_avx2;
extern const MultiplyAdd multiply_add_avx512;

}  // namespace lockstep::cli::measure
