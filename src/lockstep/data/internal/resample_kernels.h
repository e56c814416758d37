// The two passes of resample.cpp, compiled for three instruction sets.
#pragma once

#include <cstdint>

namespace lockstep::data {

constexpr int kWeightBits = 22;

/// For each output position: its input positions (`firsts`, counted from `base`, and `counts`) and their
/// weights in fixed point, `stride` per position.
struct TapsView {
  const int32_t* firsts = nullptr;
  const int32_t* counts = nullptr;
  const int32_t* weights = nullptr;
  int64_t stride = 0;
  int64_t positions = 0;
  int32_t base = 0;
};

/// Number of rows that the first pass processes together, one per lane.
constexpr int64_t kLaneRows = 16;

/// Up to kLaneRows rows of interleaved bytes, and the destination of their narrowed channels.
struct RowBlock {
  const uint8_t* source = nullptr;  ///< the first row; a pixel has `channels` bytes
  int64_t source_row = 0;           ///< distance between rows
  int64_t source_pixels = 0;        ///< number of pixels that may be read in a row
  int64_t rows = 0;
  int64_t channels = 0;            ///< 1 or 3
  uint8_t* destination = nullptr;  ///< the first row of the first channel
  int64_t destination_row = 0;
  int64_t destination_plane = 0;  ///< distance between channels
  uint8_t* transposed =
      nullptr;                  ///< scratch: kLaneRows * round_up(source_pixels * channels, kLaneRows) bytes
  uint8_t* narrowed = nullptr;  ///< scratch: kLaneRows * channels * round_up(positions, kLaneRows) bytes
};

struct ResampleKernels {
  /// Along columns: each destination row may be written up to round_up(positions, kLaneRows).
  void (*narrow)(const RowBlock& block, const TapsView& columns);
  /// Makes one output row of `width` from `count` rows at distance `row`. May read up to 64 bytes beyond
  /// `width` in a row.
  void (*mix)(const uint8_t* rows, int64_t row, const int32_t* weights, int64_t count, uint8_t* destination,
              int64_t width);
  /// In place: Y, Cb, Cr (JFIF) to red, green, blue.
  void (*to_colours)(uint8_t* first, uint8_t* second, uint8_t* third, int64_t pixels);
};

const ResampleKernels& plain_resample_kernels();
const ResampleKernels& avx2_resample_kernels();
const ResampleKernels& avx512_resample_kernels();

/// The kernels for the instruction set that device::vector_unit() allows.
const ResampleKernels& resample_kernels();

}  // namespace lockstep::data
