#include <ATen/ATen.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::data {
namespace {

at::Tensor per_channel(const std::vector<double>& values, const at::Tensor& pixels) {
  const auto count = static_cast<int64_t>(values.size());
  if (count != 1 && count != pixels.size(1)) {
    throw Error(ErrorCode::invalid_option, "normalization has " + counted(count, "value") +
                                               ", but the samples have " +
                                               counted(pixels.size(1), "channel"));
  }
  const at::Tensor flat = at::tensor(values, at::TensorOptions().dtype(at::kDouble)).to(pixels.options());
  return pixels.dim() == 4 ? flat.view({1, count, 1, 1}) : flat.view({1, count, 1});
}

}  // namespace

at::Tensor to_input(const at::Tensor& images, const InputFormat& format) {
  // Bytes are copied to the device; types narrower than float32 are rounded once, at the end.
  const at::ScalarType type = format.type == at::kDouble ? at::kDouble : at::kFloat;
  const bool sequences = images.scalar_type() == at::kFloat;
  at::Tensor pixels = images.to(format.device, images.scalar_type(), /*non_blocking=*/true);
  pixels = sequences ? pixels.to(type, /*non_blocking=*/false,
                                 /*copy=*/!format.mean.empty() || !format.deviation.empty())
                     : pixels.to(type).div_(255);
  if (!format.mean.empty()) pixels.sub_(per_channel(format.mean, pixels));
  if (!format.deviation.empty()) pixels.div_(per_channel(format.deviation, pixels));
  return pixels.to(format.type);
}

}  // namespace lockstep::data
