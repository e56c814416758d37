// One source for three instruction sets: the including file defines the object's name (LOCKSTEP_MULTIPLY_ADD)
// and is compiled with its own flags.
#include <cstdint>

#include "lockstep/cli/measure/multiply_add.h"

namespace lockstep::cli::measure {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kLanes = kVectorBytes / 4;
// A result is ready after 4 cycles, and two units start one operation each cycle, so at least 8 chains are
// needed; 12 chains and their operands fit in 16 registers.
constexpr int kChains = 12;
constexpr int64_t kSteps = 1000;

typedef float Vector __attribute__((vector_size(kVectorBytes)));

double run(int64_t rounds) {
  // Read at run time, so the compiler cannot compute the result. All chains converge to 1, so no value
  // overflows or becomes denormal.
  volatile float half = 0.5f;
  const Vector factor = half - Vector{};
  const Vector addend = half - Vector{};
  Vector chains[kChains];
  for (int chain = 0; chain < kChains; ++chain) chains[chain] = static_cast<float>(chain) - Vector{};
  for (int64_t step = 0; step < rounds * kSteps; ++step) {
    for (int chain = 0; chain < kChains; ++chain) chains[chain] = chains[chain] * factor + addend;
  }
  Vector sum{};
  for (const Vector& chain : chains) sum += chain;
  half = sum[0];
  return static_cast<double>(rounds * kSteps) * kChains * kLanes * 2;
}

}  // namespace

const MultiplyAdd LOCKSTEP_MULTIPLY_ADD{run};

}  // namespace lockstep::cli::measure
