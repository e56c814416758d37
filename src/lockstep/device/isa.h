// Which vector instructions the CPU libraries use, and the resulting fingerprint of the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::device {

/// Restricts LibTorch, oneDNN and MKL to "avx2" or "avx512"; "auto" does not restrict them. Call it before
/// the first operation on a tensor, because the libraries look only once. Throws invalid_option if the
/// processor lacks the unit, or if a library has already looked.
void pin_isa(const std::string& isa);

/// Throws invalid_option unless the libraries use this unit, or it is "auto".
void check_isa(const std::string& isa);

/// The instruction sets for which this project's kernels are compiled.
enum class VectorUnit { plain, avx2, avx512 };

/// The widest unit that the processor has and pin_isa allows; determined once.
VectorUnit vector_unit();

/// Whether the processor multiplies matrices of bfloat16 (Intel's AMX), the operating system allows it to
/// this process, and pin_isa allows it; determined once.
bool has_matrix_unit();

/// Whether vector_unit() is avx512 and the processor has instructions that round a vector to bfloat16 and
/// that multiply pairs of bfloat16 numbers (AVX512_BF16).
bool rounds_to_bfloat16();

/// The one of the three that fits vector_unit().
template <class T>
const T& for_vector_unit(const T& plain, const T& avx2, const T& avx512) {
  switch (vector_unit()) {
    case VectorUnit::avx512:
      return avx512;
    case VectorUnit::avx2:
      return avx2;
    case VectorUnit::plain:
      break;
  }
  return plain;
}

/// Runs with equal fingerprints (and equal options) give equal bits: instruction set, libraries, our own
/// kernels, compiler and these GPUs in one line.
std::string arithmetic_fingerprint(const std::vector<int64_t>& gpus = {});

}  // namespace lockstep::device
