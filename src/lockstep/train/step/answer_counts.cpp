#include "lockstep/train/step/answer_counts.h"

#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>

#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {

int64_t answer_of(const float* scores, int64_t classes) {
  return std::max_element(scores, scores + classes,
                          [](float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); }) -
         scores;
}

AnswerCounts::AnswerCounts(int64_t classes, at::Device device)
    : classes_(classes),
      counts_(at::zeros({classes * classes + 1}, at::TensorOptions(device).dtype(at::kLong))) {}

void AnswerCounts::add(const at::Tensor& logits, const at::Tensor& target) {
  if (logits.size(1) != classes_) {
    other_outputs_ = true;
    return;
  }
  if (are_plain(logits, target)) {
    const auto* scores = logits.const_data_ptr<float>();
    const auto* truth = target.const_data_ptr<int64_t>();
    auto* counts = counts_.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < logits.size(0); ++i, scores += classes_)
      ++counts[truth[i] < 0 ? classes_ * classes_ : truth[i] * classes_ + answer_of(scores, classes_)];
    return;
  }
  const at::Tensor truth = target.flatten();
  const at::Tensor place =
      (truth * classes_ + logits.argmax(1).flatten()).masked_fill(truth < 0, classes_ * classes_);
  counts_.scatter_add_(0, place, at::ones_like(place));
}

// The ranks add whole numbers in doubles, without rounding.
ConfusionMatrix counts_of_all(const std::vector<AnswerCounts>& workers, comm::Communicator& comm) {
  const int64_t classes = workers.front().classes_;
  const at::Tensor sum = at::zeros({classes * classes + 1}, at::kDouble);
  const at::Tensor others = at::zeros({1}, at::kDouble);
  for (const AnswerCounts& one : workers) {
    sum.add_(one.counts_.cpu());
    others.add_(one.other_outputs_ ? 1 : 0);
  }
  comm.all_reduce({sum, others}, comm::Reduction::sum);
  if (others.item<double>() > 0) return {};
  const auto* count = sum.const_data_ptr<double>();
  ConfusionMatrix confusion(static_cast<size_t>(classes), std::vector<int64_t>(static_cast<size_t>(classes)));
  for (std::vector<int64_t>& row : confusion) {
    for (int64_t& cell : row) cell = static_cast<int64_t>(*count++);
  }
  return confusion;
}

}  // namespace lockstep::train
