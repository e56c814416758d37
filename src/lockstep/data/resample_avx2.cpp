#include <cstdint>

#include <immintrin.h>

#define LOCKSTEP_RESAMPLE avx2_resample_kernels

namespace lockstep::data {
namespace {

typedef int32_t Wide __attribute__((vector_size(32)));

Wide load_wide(const uint8_t* from) {
  return reinterpret_cast<Wide>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

void store_levels(uint8_t* to, Wide levels) {
  const __m128i low = reinterpret_cast<__m128i>(__builtin_shufflevector(levels, levels, 0, 1, 2, 3));
  const __m128i high = reinterpret_cast<__m128i>(__builtin_shufflevector(levels, levels, 4, 5, 6, 7));
  const __m128i halves = _mm_packs_epi32(low, high);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(halves, halves));
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/internal/resample_body.h"
