#include "lockstep/nn/layers/adaptive_average.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

namespace lockstep::nn {
namespace {

// [output,input]: the share of each input in each output.
at::Tensor pooling_shares(int64_t input, int64_t output, const at::TensorOptions& options) {
  const at::Tensor shares = at::zeros({output, input}, options);
  for (int64_t i = 0; i < output; ++i) {
    const int64_t begin = i * input / output, end = ((i + 1) * input + output - 1) / output;
    shares[i].narrow(0, begin, end - begin).fill_(1 / static_cast<double>(end - begin));
  }
  return shares;
}

}  // namespace

at::Tensor repeatable_adaptive_average(const at::Tensor& images, Pair size) {
  const int64_t height = images.size(2), width = images.size(3);
  if (height == size.height && width == size.width) return images;
  if (height % size.height == 0 && width % size.width == 0) {
    const int64_t rows = height / size.height, columns = width / size.width;
    return at::avg_pool2d(images, {rows, columns}, {rows, columns});
  }
  return at::matmul(at::matmul(pooling_shares(height, size.height, images.options()), images),
                    pooling_shares(width, size.width, images.options()).t());
}

}  // namespace lockstep::nn
