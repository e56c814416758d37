#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lockstep/data/internal/affine.h"
#include "lockstep/data/internal/thread_buffer.h"

namespace lockstep::data {
namespace {

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

// Column and row of the source, for a place of the result: {x, y, 1} times these rows. torchvision's
// _get_inverse_affine_matrix; places are counted from the centre.
std::array<double, 6> inverse_matrix(const AffineChange& change, const ImageFormat& format) {
  const double turn = radians(change.angle), x = radians(change.shear_x), y = radians(change.shear_y);
  const double a = std::cos(turn - y) / std::cos(y);
  const double b = -std::cos(turn - y) * std::tan(x) / std::cos(y) - std::sin(turn);
  const double c = std::sin(turn - y) / std::cos(y);
  const double d = -std::sin(turn - y) * std::tan(x) / std::cos(y) + std::cos(turn);
  std::array<double, 6> matrix{d / change.scale,  -b / change.scale, 0,
                               -c / change.scale, a / change.scale,  0};
  const double centre_x = change.from_corner ? -0.5 * static_cast<double>(format.width) : 0;
  const double centre_y = change.from_corner ? -0.5 * static_cast<double>(format.height) : 0;
  const double from_x = -centre_x - change.right, from_y = -centre_y - change.down;
  matrix[2] = matrix[0] * from_x + matrix[1] * from_y + centre_x;
  matrix[5] = matrix[3] * from_x + matrix[4] * from_y + centre_y;
  return matrix;
}

}  // namespace

void apply_affine(std::span<uint8_t> image, const ImageFormat& format, const AffineChange& change) {
  const std::array<double, 6> from = inverse_matrix(change, format);
  const int64_t height = format.height, width = format.width, plane = height * width;
  thread_local ThreadBuffer memory;
  const std::span<uint8_t> whole = memory.of(image.size());
  std::copy(image.begin(), image.end(), whole.begin());
  const double middle_x = static_cast<double>(width) / 2 - 0.5;
  const double middle_y = static_cast<double>(height) / 2 - 0.5;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const double right = static_cast<double>(x) - middle_x, down = static_cast<double>(y) - middle_y;
      // The nearest pixel; of two equally near ones the even one.
      const double column = std::nearbyint(from[0] * right + from[1] * down + from[2] + middle_x);
      const double row = std::nearbyint(from[3] * right + from[4] * down + from[5] + middle_y);
      const bool inside =
          column >= 0 && row >= 0 && column < static_cast<double>(width) && row < static_cast<double>(height);
      const int64_t source = inside ? static_cast<int64_t>(row) * width + static_cast<int64_t>(column) : 0;
      for (int64_t c = 0; c < format.channels; ++c)
        image[static_cast<size_t>(c * plane + y * width + x)] =
            inside ? whole[static_cast<size_t>(c * plane + source)] : uint8_t{0};
    }
  }
}

void change_shape(std::span<uint8_t> image, const ImageFormat& format, const ShapeChange& change,
                  Random random) {
  const auto drawn = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  AffineChange affine;
  affine.angle = drawn(-change.rotation, change.rotation);
  affine.scale = drawn(change.least_scale, change.most_scale);
  affine.shear_x = drawn(-change.shear, change.shear);
  apply_affine(image, format, affine);
}

}  // namespace lockstep::data
