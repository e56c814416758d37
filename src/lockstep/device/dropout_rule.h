// The mask of dropout, for the kernels of each device.
#pragma once

#include <cstdint>

#include "lockstep/device/device_function.h"

namespace lockstep::device {

/// What is kept: numbers whose 16 random bits are below `levels`, times `scale`.
struct Kept {
  uint32_t levels;
  float scale;
};

/// SplitMix64 (Steele, Lea, Flood 2014), by the position in the sequence: the random bits of four numbers,
/// the first one's in the lowest 16.
LOCKSTEP_DEVICE_FUNCTION inline uint64_t random_word(uint64_t seed, uint64_t place) {
  uint64_t value = seed + (place + 1) * 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace lockstep::device
