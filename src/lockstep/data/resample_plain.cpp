#include <cstdint>
#include <cstring>

#define LOCKSTEP_RESAMPLE plain_resample_kernels

namespace lockstep::data {
namespace {

typedef int32_t Wide __attribute__((vector_size(16)));

Wide load_wide(const uint8_t* from) { return Wide{from[0], from[1], from[2], from[3]}; }

void store_levels(uint8_t* to, Wide levels) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(levels[i]);
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/internal/resample_body.h"
