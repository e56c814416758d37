// Convolutions by their definition. A row of the kernel with all its channels is contiguous in memory, so
// each output is a few dot products.
#pragma once

#include <type_traits>

#include "lockstep/kernels/internal/node_sums.h"
#include "lockstep/kernels/internal/planes.h"
#include "lockstep/kernels/internal/register_tiles.h"
#include "lockstep/kernels/internal/workspace.h"

namespace lockstep::kernels {
namespace {

/// Returns each image of a batch as floats with its padding, so that at least `lanes` floats can be read from
/// the first channel of each pixel. If this is true for the batch itself, nothing is copied; a pixel's
/// channels are then followed by the next pixel, not by zeros.
template <int kLanes, class T>
class ImageReader {
 public:
  ImageReader(Workspace& workspace, const PlaneSize& size, int64_t batch, int64_t top, int64_t left,
              int64_t lanes)
      : size_(size), batch_(batch), top_(top), left_(left), lanes_(lanes), padded_(top > 0 || left > 0) {
    plane_ = {nullptr, size.height + 2 * top, size.width + 2 * left, lanes};
    plane_.data = workspace.take(plane_.size());
    clear(plane_.data, plane_.size());
  }

  Plane read(const T* images, int64_t image) {
    const T* source = images + image * size_.size();
    if constexpr (std::is_same_v<T, float>) {
      // This plane is only read, but its type is also used for planes that are written.
      if (is_readable_in_place(image))
        return {const_cast<float*>(source), size_.height, size_.width, size_.channels};
    }
    fill<kLanes>(plane_, source, size_, top_, left_);
    return plane_;
  }

 private:
  bool is_readable_in_place(int64_t image) const {
    const int64_t beyond = lanes_ - size_.channels;
    return !padded_ && (beyond == 0 || (image + 1 < batch_ && beyond <= size_.size()));
  }

  PlaneSize size_;
  int64_t batch_;
  int64_t top_;
  int64_t left_;
  int64_t lanes_;
  bool padded_;
  Plane plane_{};
};

/// packed [rows, padded] to [panel][rows][the panel's lanes]
template <int kLanes>
inline void split_into_panels(const float* packed, int64_t rows, int64_t padded, float* split) {
  const Panels panels{padded / kLanes};
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t begin = panels.begin(panel) * kLanes;
    const int64_t width = panels.width(panel) * kLanes;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t lane = 0; lane < width; ++lane)
        split[begin * rows + row * width + lane] = packed[row * padded + begin + lane];
    }
  }
}

template <class T, int kLanes>
void direct_convolution(const ConvolutionShape& shape, const T* input, const T* weight,
                        const WeightMatrix& matrix, const T* bias, const ConvolutionOutput<T>& output) {
  const int64_t padded = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t depth = matrix.taps * shape.channels;
  const int64_t height = shape.output_height();
  const int64_t width = shape.output_width();
  Workspace workspace;
  float* packed = workspace.take(depth * padded);
  float* weights = workspace.take(depth * padded);
  float* packed_bias = workspace.take(padded);
  ImageReader<kLanes, T> reader(workspace, {shape.height, shape.width, shape.channels}, shape.batch,
                                shape.padding_height, shape.padding_width, shape.channels);
  pack_weights(matrix, weight, padded, packed);
  pack_bias(bias, shape.filters, padded, packed_bias);
  split_into_panels<kLanes>(packed, depth, padded, weights);
  const Panels panels{padded / kLanes};
  const OutputRule rule(output, 1, width);
  for (int64_t image = 0; image < shape.batch; ++image) {
    const Plane plane = reader.read(input, image);
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t lane = panels.begin(panel) * kLanes;
      with_width(panels.width(panel), [&](auto vectors) {
        for (int64_t y = 0; y < height; ++y) {
          T* target = output.data + (image * height + y) * width * output.step + lane;
          each_row_block(width, [&](int64_t x, auto count) {
            const float* corner =
                plane.data + y * shape.stride_height * plane.row() + x * shape.stride_width * plane.stride;
            const Rows rows{corner, shape.stride_width * plane.stride, shape.kernel_height, plane.row(),
                            shape.kernel_width * shape.channels};
            store_pixels(multiply<kLanes, count, vectors>(rows, weights + lane * depth), packed_bias + lane,
                         target + x * output.step, rule, shape.filters - lane);
          });
        }
      });
    }
  }
}

template <class T, int kLanes>
void direct_weight_gradient(const ConvolutionShape& shape, const T* gradient, const T* input,
                            const WeightGradients& target) {
  const int64_t padded = divided_up(shape.filters, kLanes) * kLanes;
  const int64_t height = shape.output_height();
  const int64_t width = shape.output_width();
  const int64_t kernel_row = shape.kernel_width * shape.channels;
  const WeightMatrix matrix = weight_by_filters(shape);
  Workspace workspace;
  float* sums = workspace.take(matrix.taps * shape.channels * padded);
  float* bias_sums = workspace.take(padded);
  ImageReader<kLanes, T> inputs(workspace, {shape.height, shape.width, shape.channels}, shape.batch,
                                shape.padding_height, shape.padding_width, shape.channels);
  ImageReader<kLanes, T> gradients(workspace, {height, width, shape.filters}, shape.batch, 0, 0, padded);
  clear(sums, matrix.taps * shape.channels * padded);
  clear(bias_sums, padded);
  for (int64_t image = 0; image < shape.batch; ++image) {
    const Plane left = inputs.read(input, image);
    const Plane right = gradients.read(gradient, image);
    for (int64_t ky = 0; ky < shape.kernel_height; ++ky) {
      const Pairs pairs{left.data + ky * left.row(),
                        shape.stride_height * left.row(),
                        shape.stride_width * left.stride,
                        right.data,
                        right.row(),
                        right.stride,
                        height,
                        width};
      add_all_products<kLanes>(pairs, kernel_row, padded / kLanes, sums + ky * kernel_row * padded, padded);
    }
    for (int64_t lane = 0; lane < padded; lane += kLanes)
      add_rows<kLanes>(right.data + lane, height * width, right.stride, bias_sums + lane);
  }
  unpack_weights(matrix, sums, padded, target.weight);
  if (target.bias != nullptr) copy_values<kLanes>(bias_sums, shape.filters, target.bias);
}

}  // namespace
}  // namespace lockstep::kernels
