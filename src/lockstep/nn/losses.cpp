#include "lockstep/nn/losses.h"

#include <ATen/Functions.h>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

[[noreturn]] void misfit(const char* loss, const at::Tensor& output, const at::Tensor& target) {
  throw Error(ErrorCode::invalid_option, std::string(loss) + " cannot compare an output " +
                                             c10::str(output.sizes()) + " with a target " +
                                             c10::str(target.sizes()) + " of type " +
                                             c10::toString(target.scalar_type()));
}

at::Tensor mean_of(const at::Tensor& sum, const at::Tensor& output) { return sum / output.size(0); }

}  // namespace

at::Tensor softmax(const at::Tensor& logits) { return at::softmax(wide(logits), 1); }

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& target) {
  const bool same_places =
      target.dim() == 1 || (target.dim() == 2 && logits.dim() == 3 && target.size(1) == logits.size(2));
  const bool numbers = target.scalar_type() == at::kLong && same_places && logits.dim() == target.dim() + 1 &&
                       target.size(0) == logits.size(0);
  const bool rows = target.is_floating_point() && logits.dim() == 2 && target.sizes() == logits.sizes();
  if (!numbers && !rows) misfit("cross_entropy", logits, target);
  // CUDA has no kernel with repeatable bits for [b,classes,T].
  if (logits.dim() == 3 && logits.is_cuda())
    return cross_entropy_sum(logits.transpose(1, 2).flatten(0, 1), target.flatten());
  return at::cross_entropy_loss(wide(logits), target, {}, at::Reduction::Sum, kNoClass);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target) {
  return mean_of(cross_entropy_sum(logits, target), logits);
}

at::Tensor mse_sum(const at::Tensor& output, const at::Tensor& target) {
  if (output.sizes() != target.sizes() || output.dim() == 0) misfit("mse", output, target);
  return at::mse_loss(wide(output), wide(target), at::Reduction::Sum) / 2;
}

at::Tensor mse(const at::Tensor& output, const at::Tensor& target) {
  return mean_of(mse_sum(output, target), output);
}

}  // namespace lockstep::nn
