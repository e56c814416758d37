// The kernels' source, compiled once per instruction set. resample_plain.cpp and its siblings define
// LOCKSTEP_RESAMPLE, the function that returns the kernels; Wide, a register of integers; and how bytes are
// loaded and stored, because g++ 12 does not generate good code for that. All arithmetic is on integers, so
// the register width does not change the result.
#pragma once

#include <algorithm>
#include <cstring>

#include "lockstep/data/internal/resample_kernels.h"

namespace lockstep::data {
namespace {

constexpr int64_t kLanes = sizeof(Wide) / 4;
constexpr int32_t kHalf = 1 << (kWeightBits - 1);
constexpr int64_t kRegisters = kLaneRows / kLanes;

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(uint8_t* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

Wide levels_of(Wide sum) {
  sum >>= kWeightBits;
  return sum > 255 ? Wide{} + 255 : sum;
}

// Interleaving the first half of the rows with the second half four times transposes 16x16 bytes.
void transpose(Bytes16 (&rows)[16]) {
  Bytes16 next[16];
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + 8],
                                      Bytes16{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
      next[2 * i + 1] = __builtin_shuffle(
          rows[i], rows[i + 8], Bytes16{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

// Rows [rows][bytes] to lanes [bytes][kLaneRows]; missing rows repeat the last one.
void turn_in(const RowBlock& block) {
  const int64_t bytes = block.source_pixels * block.channels;
  for (int64_t begin = 0; begin < bytes; begin += 16) {
    Bytes16 rows[16];
    const int64_t there = std::min<int64_t>(16, bytes - begin);
    for (int64_t i = 0; i < 16; ++i) {
      const uint8_t* from = block.source + std::min(i, block.rows - 1) * block.source_row + begin;
      if (there == 16) {
        rows[i] = load<Bytes16>(from);
      } else {
        uint8_t part[16] = {};
        std::memcpy(part, from, static_cast<size_t>(there));
        rows[i] = load<Bytes16>(part);
      }
    }
    transpose(rows);
    for (int64_t i = 0; i < 16; ++i) store(block.transposed + (begin + i) * kLaneRows, rows[i]);
  }
}

template <int64_t channels>
void narrow_lanes(const RowBlock& block, const TapsView& columns, int64_t padded) {
  for (int64_t x = 0; x < columns.positions; ++x) {
    const uint8_t* from = block.transposed + (columns.firsts[x] - columns.base) * channels * kLaneRows;
    const int32_t* weights = columns.weights + x * columns.stride;
    Wide sums[channels][kRegisters];
#pragma GCC unroll 3
    for (int64_t c = 0; c < channels; ++c) {
#pragma GCC unroll 4
      for (int64_t r = 0; r < kRegisters; ++r) sums[c][r] = Wide{} + kHalf;
    }
    for (int64_t i = 0; i < columns.counts[x]; ++i, from += channels * kLaneRows) {
      const Wide weight = Wide{} + weights[i];
#pragma GCC unroll 3
      for (int64_t c = 0; c < channels; ++c) {
#pragma GCC unroll 4
        for (int64_t r = 0; r < kRegisters; ++r)
          sums[c][r] += load_wide(from + c * kLaneRows + r * kLanes) * weight;
      }
    }
#pragma GCC unroll 3
    for (int64_t c = 0; c < channels; ++c) {
#pragma GCC unroll 4
      for (int64_t r = 0; r < kRegisters; ++r)
        store_levels(block.narrowed + (c * padded + x) * kLaneRows + r * kLanes, levels_of(sums[c][r]));
    }
  }
}

void turn_out(const RowBlock& block, int64_t padded) {
  for (int64_t c = 0; c < block.channels; ++c) {
    for (int64_t begin = 0; begin < padded; begin += 16) {
      Bytes16 rows[16];
      for (int64_t i = 0; i < 16; ++i)
        rows[i] = load<Bytes16>(block.narrowed + (c * padded + begin + i) * kLaneRows);
      transpose(rows);
      uint8_t* to = block.destination + c * block.destination_plane + begin;
      for (int64_t i = 0; i < block.rows; ++i) store(to + i * block.destination_row, rows[i]);
    }
  }
}

void narrow(const RowBlock& block, const TapsView& columns) {
  const int64_t padded = (columns.positions + kLaneRows - 1) / kLaneRows * kLaneRows;
  turn_in(block);
  if (block.channels == 1) {
    narrow_lanes<1>(block, columns, padded);
  } else {
    narrow_lanes<3>(block, columns, padded);
  }
  turn_out(block, padded);
}

void mix(const uint8_t* rows, int64_t row, const int32_t* weights, int64_t count, uint8_t* destination,
         int64_t width) {
  constexpr int64_t kAtOnce = 64;
  constexpr int64_t kSums = kAtOnce / kLanes;
  for (int64_t x = 0; x < width; x += kAtOnce) {
    Wide sums[kSums];
#pragma GCC unroll 16
    for (int64_t r = 0; r < kSums; ++r) sums[r] = Wide{} + kHalf;
    for (int64_t i = 0; i < count; ++i) {
      const Wide weight = Wide{} + weights[i];
      const uint8_t* from = rows + i * row + x;
#pragma GCC unroll 16
      for (int64_t r = 0; r < kSums; ++r) sums[r] += load_wide(from + r * kLanes) * weight;
    }
    uint8_t levels[kAtOnce];
#pragma GCC unroll 16
    for (int64_t r = 0; r < kSums; ++r) store_levels(levels + r * kLanes, levels_of(sums[r]));
    std::memcpy(destination + x, levels, static_cast<size_t>(std::min(kAtOnce, width - x)));
  }
}

// JFIF's factors (ITU-T T.871) in fixed point with 16 fractional bits.
void to_colours(uint8_t* first, uint8_t* second, uint8_t* third, int64_t pixels) {
  constexpr int32_t kRedOfCr = 91881, kGreenOfCb = -22554, kGreenOfCr = -46802, kBlueOfCb = 116130,
                    kRound = 1 << 15;
#pragma GCC ivdep
  for (int64_t i = 0; i < pixels; ++i) {
    const int32_t luma = first[i] * 65536 + kRound;
    const int32_t cb = second[i] - 128, cr = third[i] - 128;
    const int32_t red = (luma + kRedOfCr * cr) >> 16;
    const int32_t green = (luma + kGreenOfCb * cb + kGreenOfCr * cr) >> 16;
    const int32_t blue = (luma + kBlueOfCb * cb) >> 16;
    first[i] = static_cast<uint8_t>(std::min(std::max(red, 0), 255));
    second[i] = static_cast<uint8_t>(std::min(std::max(green, 0), 255));
    third[i] = static_cast<uint8_t>(std::min(std::max(blue, 0), 255));
  }
}

constexpr ResampleKernels kKernels{&narrow, &mix, &to_colours};

}  // namespace

const ResampleKernels& LOCKSTEP_RESAMPLE() { return kKernels; }

}  // namespace lockstep::data
