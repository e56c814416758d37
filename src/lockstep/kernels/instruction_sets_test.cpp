// Names the instruction sets that all tests of kernels leave out on this machine.
#include <gtest/gtest.h>

#include "lockstep/device/isa.h"

namespace lockstep::kernels {
namespace {

TEST(InstructionSets, Avx2IsTested) {
  if (device::vector_unit() < device::VectorUnit::avx2)
    GTEST_SKIP()
        << "kernels for AVX2 were not run: this processor has none, or ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, Avx512IsTested) {
  if (device::vector_unit() < device::VectorUnit::avx512)
    GTEST_SKIP()
        << "kernels for AVX-512 were not run: this processor has none, or ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, Avx512Bf16IsTested) {
  if (!device::rounds_to_bfloat16())
    GTEST_SKIP() << "kernels for AVX512_BF16 were not run: this processor has none, or "
                    "ATEN_CPU_CAPABILITY forbids it";
}

TEST(InstructionSets, AmxIsTested) {
  if (!device::has_matrix_unit())
    GTEST_SKIP() << "kernels for AMX were not run: this processor has none, or the system or "
                    "ONEDNN_MAX_CPU_ISA forbids it";
}

}  // namespace
}  // namespace lockstep::kernels
