// The method of Pillow (described in src/libImaging/Resample.c): a triangle filter, widened by the scale when
// shrinking; one pass over columns and one over rows, each rounded to 8 bits; weights in fixed point with 22
// fractional bits. The same rounding gives the same levels.
#include "lockstep/data/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/data/internal/resample_kernels.h"
#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/device/isa.h"

namespace lockstep::data {

const ResampleKernels& resample_kernels() {
  static const ResampleKernels& chosen =
      device::for_vector_unit(plain_resample_kernels(), avx2_resample_kernels(), avx512_resample_kernels());
  return chosen;
}

namespace {

// Whole registers are read and written this far beyond the end of a row.
constexpr int64_t kOverrun = 64;

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

struct Taps {
  std::vector<int32_t> firsts, counts, weights;
  int64_t stride = 0;

  int64_t begin() const { return firsts.front(); }
  int64_t end() const { return firsts.back() + counts.back(); }
  TapsView view() const {
    return {firsts.data(), counts.data(), weights.data(), stride, static_cast<int64_t>(firsts.size()),
            firsts.front()};
  }
  const int32_t* weights_of(int64_t position) const { return weights.data() + position * stride; }
};

double triangle(double distance) { return std::max(0.0, 1.0 - std::abs(distance)); }

int32_t fixed_point(double weight) {
  return static_cast<int32_t>(std::floor(weight * (1 << kWeightBits) + 0.5));
}

// Pillow's boxes are floats, and so are their differences.
Taps make_taps(int64_t source_length, float begin, float end, int64_t destination_length) {
  const double scale = static_cast<double>(end - begin) / static_cast<double>(destination_length);
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.stride = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(destination_length * taps.stride));
  std::vector<double> exact(static_cast<size_t>(taps.stride));
  for (int64_t position = 0; position < destination_length; ++position) {
    const double centre = static_cast<double>(begin) + (static_cast<double>(position) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const int64_t last = std::min<int64_t>(source_length, static_cast<int64_t>(centre + reach + 0.5));
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double weight = triangle((static_cast<double>(i) - centre + 0.5) / reach);
      exact[static_cast<size_t>(i - first)] = weight;
      sum += weight;
    }
    taps.firsts.push_back(static_cast<int32_t>(first));
    taps.counts.push_back(static_cast<int32_t>(last - first));
    for (int64_t i = 0; i < last - first; ++i) {
      taps.weights[static_cast<size_t>(position * taps.stride + i)] =
          fixed_point(exact[static_cast<size_t>(i)] / sum);
    }
  }
  return taps;
}

// A thread usually repeats its last few resizes: photographs from one camera, rows and columns, luma and
// chroma.
class KeptTaps {
 public:
  /// Valid until the next call.
  const Taps& find(int64_t source_length, double begin, double end, int64_t destination_length) {
    const Key key{source_length, begin, end, destination_length};
    for (const Entry& entry : entries_) {
      if (entry.key == key) return entry.taps;
    }
    Entry& oldest = entries_[next_];
    next_ = (next_ + 1) % entries_.size();
    oldest = {
        {}, make_taps(source_length, static_cast<float>(begin), static_cast<float>(end), destination_length)};
    oldest.key = key;
    return oldest.taps;
  }

 private:
  struct Key {
    int64_t source_length = 0;
    double begin = 0;
    double end = 0;
    int64_t destination_length = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    Taps taps;
  };
  std::array<Entry, 4> entries_;
  size_t next_ = 0;
};

bool whole(double begin, double end, int64_t length, int64_t wanted) {
  return length == wanted && begin == 0 && end == static_cast<double>(length);
}

bool are_interleaved(std::span<const PixelPlane> planes) {
  if (planes.size() != 3 || planes[0].step != 3) return false;
  for (int64_t c = 1; c < 3; ++c) {
    const PixelPlane& plane = planes[static_cast<size_t>(c)];
    if (plane.first != planes[0].first + c || plane.step != 3 || plane.row != planes[0].row) return false;
  }
  return true;
}

// The pixels of each row next to each other, in `memory`.
PixelPlane gathered(const PixelPlane& plane, uint8_t* memory) {
  for (int64_t y = 0; y < plane.height; ++y) {
    const uint8_t* from = plane.first + y * plane.row;
    uint8_t* to = memory + y * plane.width;
    for (int64_t x = 0; x < plane.width; ++x) to[x] = from[x * plane.step];
  }
  return {memory, plane.width, 1, plane.height, plane.width};
}

// Rows [begin, end) of the planes, each `width` wide, at distance `row` in bytes.
struct Rows {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t width = 0;
  int64_t row = 0;
  int64_t plane() const { return (end - begin) * row; }
};

// `channels` is 3 for interleaved planes, of which `plane` is the first.
void narrow_plane(const PixelPlane& plane, int64_t channels, const Taps& columns, const Rows& rows,
                  uint8_t* destination) {
  thread_local ThreadBuffer scratch;
  const int64_t first = columns.begin();
  RowBlock block{.source_row = plane.row,
                 .source_pixels = columns.end() - first,
                 .channels = channels,
                 .destination_row = rows.row,
                 .destination_plane = rows.plane()};
  const int64_t transposed = kLaneRows * rounded_up(block.source_pixels * channels, kLaneRows);
  const std::span<uint8_t> memory =
      scratch.of(static_cast<size_t>(transposed + kLaneRows * channels * rounded_up(rows.width, kLaneRows)));
  block.transposed = memory.data();
  block.narrowed = memory.data() + transposed;
  for (int64_t y = rows.begin; y < rows.end; y += kLaneRows) {
    block.source = plane.first + y * plane.row + first * plane.step;
    block.rows = std::min(kLaneRows, rows.end - y);
    block.destination = destination + (y - rows.begin) * rows.row;
    resample_kernels().narrow(block, columns.view());
  }
}

void copy_rows(const PixelPlane& plane, const Rows& rows, uint8_t* destination) {
  for (int64_t y = rows.begin; y < rows.end; ++y)
    std::memcpy(destination + (y - rows.begin) * rows.row, plane.first + y * plane.row,
                static_cast<size_t>(rows.width));
}

// The pass that leaves fewer pixels comes first. The rule is that of Pillow 13; rounding between the passes
// makes the order matter.
bool rows_come_first(PlaneSize from, PlaneSize to) {
  return from.height > to.height && from.height - to.height > 2 * (from.width - to.width);
}

// Makes one output row from all its input rows. Near the end of the plane the rows are copied first, because
// the kernel reads beyond the end of a row.
void mix_source_row(const PixelPlane& plane, int64_t bytes, const Taps& rows, int64_t y,
                    uint8_t* destination) {
  thread_local ThreadBuffer copies;
  const int64_t first = rows.firsts[static_cast<size_t>(y)], count = rows.counts[static_cast<size_t>(y)];
  const uint8_t* source = plane.first + first * plane.row;
  int64_t row = plane.row;
  if ((plane.height - first - count) * plane.row < kOverrun) {
    uint8_t* const copy = copies.of(static_cast<size_t>(count * bytes + kOverrun)).data();
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(copy + i * bytes, source + i * row, static_cast<size_t>(bytes));
    source = copy;
    row = bytes;
  }
  resample_kernels().mix(source, row, rows.weights_of(y), rows.counts[static_cast<size_t>(y)], destination,
                         bytes);
}

// `channels` is 3 for interleaved planes, of which `plane` is the first.
void rows_first(const PixelPlane& plane, int64_t channels, const Taps& columns, const Taps& rows,
                PlaneSize size, uint8_t* destination) {
  thread_local ThreadBuffer mixed_memory, narrowed_memory;
  const int64_t bytes = plane.width * channels;
  uint8_t* const mixed = mixed_memory.of(static_cast<size_t>(size.height * bytes + kOverrun)).data();
  for (int64_t y = 0; y < size.height; ++y) mix_source_row(plane, bytes, rows, y, mixed + y * bytes);
  const Rows all{0, size.height, size.width, rounded_up(size.width, kOverrun)};
  uint8_t* const narrowed = narrowed_memory.of(static_cast<size_t>(channels * all.plane() + kOverrun)).data();
  narrow_plane({mixed, bytes, channels, size.height, plane.width}, channels, columns, all, narrowed);
  for (int64_t y = 0; y < channels * size.height; ++y)
    std::memcpy(destination + y * size.width, narrowed + y * all.row, static_cast<size_t>(size.width));
}

}  // namespace

void resample(std::span<const PixelPlane> planes, const Box& box, PlaneSize destination_size,
              std::span<uint8_t> destination) {
  thread_local ThreadBuffer gathered_memory, narrowed_memory;
  const int64_t height = planes[0].height, width = planes[0].width;
  const bool keeps_columns = whole(box.left, box.right, width, destination_size.width);
  const bool keeps_rows = whole(box.top, box.bottom, height, destination_size.height);
  thread_local KeptTaps kept_rows, kept_columns;
  const Taps& row_taps = kept_rows.find(height, box.top, box.bottom, destination_size.height);
  const Taps& column_taps = kept_columns.find(width, box.left, box.right, destination_size.width);
  if (!keeps_rows && !keeps_columns && rows_come_first({height, width}, destination_size)) {
    if (are_interleaved(planes))
      return rows_first(planes[0], 3, column_taps, row_taps, destination_size, destination.data());
    for (size_t c = 0; c < planes.size(); ++c) {
      const PixelPlane plane =
          planes[c].step == 1
              ? planes[c]
              : gathered(planes[c], gathered_memory.of(static_cast<size_t>(height * width)).data());
      rows_first(plane, 1, column_taps, row_taps, destination_size,
                 destination.data() + static_cast<int64_t>(c) * destination_size.pixels());
    }
    return;
  }
  const Rows rows{row_taps.begin(), row_taps.end(), destination_size.width,
                  rounded_up(destination_size.width, kOverrun)};
  uint8_t* const narrowed =
      narrowed_memory.of(static_cast<size_t>(static_cast<int64_t>(planes.size()) * rows.plane() + kOverrun))
          .data();

  if (are_interleaved(planes) && !keeps_columns) {
    narrow_plane(planes[0], 3, column_taps, rows, narrowed);
  } else {
    for (size_t c = 0; c < planes.size(); ++c) {
      PixelPlane plane = planes[c];
      if (plane.step != 1)
        plane = gathered(plane, gathered_memory.of(static_cast<size_t>(height * width)).data());
      uint8_t* const to = narrowed + static_cast<int64_t>(c) * rows.plane();
      if (keeps_columns) {
        copy_rows(plane, rows, to);
      } else {
        narrow_plane(plane, 1, column_taps, rows, to);
      }
    }
  }

  for (size_t c = 0; c < planes.size(); ++c) {
    const uint8_t* from = narrowed + static_cast<int64_t>(c) * rows.plane();
    uint8_t* to = destination.data() + static_cast<int64_t>(c) * destination_size.pixels();
    for (int64_t y = 0; y < destination_size.height; ++y, to += destination_size.width) {
      if (keeps_rows) {
        std::memcpy(to, from + y * rows.row, static_cast<size_t>(destination_size.width));
        continue;
      }
      const auto at = static_cast<size_t>(y);
      resample_kernels().mix(from + (row_taps.firsts[at] - rows.begin) * rows.row, rows.row,
                             row_taps.weights_of(y), row_taps.counts[at], to, destination_size.width);
    }
  }
}

}  // namespace lockstep::data
