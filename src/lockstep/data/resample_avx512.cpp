#include <cstdint>

#include <immintrin.h>

#define LOCKSTEP_RESAMPLE avx512_resample_kernels

namespace lockstep::data {
namespace {

typedef int32_t Wide __attribute__((vector_size(64)));

Wide load_wide(const uint8_t* from) {
  return reinterpret_cast<Wide>(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

void store_levels(uint8_t* to, Wide levels) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(levels)));
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/internal/resample_body.h"
