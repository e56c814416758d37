// The input of convolutions on AMX: images with a border, and the positions of the output's places over them.
// Only for files that are compiled for AMX.
#pragma once

#include "lockstep/kernels/convolution_kernels.h"
#include "lockstep/kernels/internal/matrix_tiles.h"
#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

inline BFloat16* take_halves(Workspace& workspace, int64_t count) {
  return reinterpret_cast<BFloat16*>(workspace.take(divided_up(count, 2)));
}

inline __mmask32 first_halves(int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

constexpr int64_t kGroupBytes = int64_t{1} << 19;

inline void clear(BFloat16* values, int64_t count) {
  std::memset(values, 0, static_cast<size_t>(count) * sizeof(BFloat16));
}

/// The input of a convolution: images, the border around each, and the distance of their pixels in the plane
/// (1: no gaps).
struct TileInput {
  const BFloat16* images;
  PlaneSize size;
  int64_t batch;
  int64_t top;
  int64_t left;
  int64_t step_height;
  int64_t step_width;
  int64_t plane_height;
  int64_t plane_width;

  bool is_as_stored() const {
    return plane_height == size.height && plane_width == size.width && step_height == 1 && step_width == 1;
  }
  int64_t plane_size() const { return plane_height * plane_width * size.channels; }
};

/// Some images with their borders: [images, height, width, channels]. After them `beyond` more numbers can be
/// read.
struct TilePlanes {
  const BFloat16* data;
  int64_t first;  ///< image of the batch
  int64_t images;
};

/// Copies an image into its plane, with zeros around and between its pixels.
inline void fill_plane(const TileInput& input, const BFloat16* image, BFloat16* plane) {
  const int64_t channels = input.size.channels;
  const int64_t row = input.plane_width * channels;
  BFloat16* target = plane + input.top * row + input.left * channels;
  BFloat16* end = plane;  // of the written part
  for (int64_t y = 0; y < input.size.height;
       ++y, target += input.step_height * row, image += input.size.width * channels) {
    clear(end, target - end);
    end = target + ((input.size.width - 1) * input.step_width + 1) * channels;
    if (input.step_width == 1) {
      std::memcpy(target, image, static_cast<size_t>(input.size.width * channels) * sizeof(BFloat16));
      continue;
    }
    clear(target, end - target);
    for (int64_t x = 0; x < input.size.width; ++x) {
      std::memcpy(target + x * input.step_width * channels, image + x * channels,
                  static_cast<size_t>(channels) * sizeof(BFloat16));
    }
  }
  clear(end, plane + input.plane_size() - end);
}

/// Calls work(planes) for groups of images of a batch that fit into the second-level cache. Images that can
/// be read in place are not copied.
template <class Work>
inline void each_group(Workspace& workspace, const TileInput& input, int64_t beyond, Work&& work) {
  const int64_t size = input.plane_size();
  const int64_t room = larger(1, kGroupBytes / (size * 2));
  // The last images are copied, because there may be no memory after them.
  const int64_t in_place = input.is_as_stored() ? larger(0, input.batch - divided_up(beyond, size)) : 0;
  for (int64_t begin = 0; begin < in_place; begin += room)
    work(TilePlanes{input.images + begin * size, begin, smaller(room, in_place - begin)});
  if (in_place == input.batch) return;
  const int64_t most = smaller(room, input.batch - in_place);
  BFloat16* planes = take_halves(workspace, most * size + beyond);
  clear(planes + most * size, beyond);
  for (int64_t begin = in_place; begin < input.batch; begin += most) {
    const int64_t images = smaller(most, input.batch - begin);
    for (int64_t i = 0; i < images; ++i)
      fill_plane(input, input.images + (begin + i) * input.size.size(), planes + i * size);
    work(TilePlanes{planes, begin, images});
  }
}

/// The positions of an output's places over the planes of its input. There are `rows` rows of places for each
/// image. Without strides all places of a group are one line, one pixel apart, and places over the borders do
/// not count. With strides each row is a line.
struct PlaceGrid {
  int64_t height;  ///< of the output
  int64_t width;
  bool is_flat;
  int64_t rows;        ///< of an image
  int64_t columns;     ///< places in a row
  int64_t row_pixels;  ///< from the first place of a row to the first place of the next row
  int64_t image_pixels;

  PlaceGrid(const TileInput& input, int64_t output_height, int64_t output_width, int64_t stride_height,
            int64_t stride_width)
      : height(output_height),
        width(output_width),
        is_flat(stride_height == 1 && stride_width == 1),
        rows(is_flat ? input.plane_height : height),
        columns(is_flat ? input.plane_width : width),
        row_pixels(stride_height * input.plane_width),
        image_pixels(input.plane_height * input.plane_width) {}

  /// The number of rows up to the last one that counts.
  int64_t rows_of(int64_t images) const { return (images - 1) * rows + height; }
  bool counts(int64_t row) const { return row % rows < height; }
  int64_t pixel(int64_t row) const { return row / rows * image_pixels + row % rows * row_pixels; }
  int64_t output(int64_t row) const { return (row / rows * height + row % rows) * width; }
};

}  // namespace
}  // namespace lockstep::kernels
