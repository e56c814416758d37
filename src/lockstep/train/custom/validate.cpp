#include "lockstep/train/custom/validate.h"

#include <cmath>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {
namespace {

// Validation data may take a quarter of the shared memory for images. Queues that do not share may keep
// training data beside it.
constexpr int64_t kKeptPart = 4;

// The logits [n,classes] and classes [n] of the samples, or time steps, that have a class.
std::pair<at::Tensor, at::Tensor> labelled(const at::Tensor& logits, const at::Tensor& target) {
  const at::Tensor places = target.flatten().ge(0).nonzero().flatten();
  if (target.dim() == 1 && places.numel() == target.numel()) return {logits, target};
  const at::Tensor rows = target.dim() == 2 ? logits.transpose(1, 2).flatten(0, 1) : logits;
  return {rows.index_select(0, places), target.flatten().index_select(0, places)};
}

// double [mini-batches * shards, 3]: the sum of the losses, the number of correct samples, and the number of
// samples. The rows of other ranks are zero.
at::Tensor own_sums(const BuiltModel& model, const std::shared_ptr<const data::ImageSet>& images, Share share,
                    const ValidationOptions& options) {
  const int64_t rows = data::steps_per_epoch(images->size(), options.mini_batch_size) * options.shards;
  const at::Tensor sums = at::zeros({rows, 3}, at::kDouble);
  auto values = sums.accessor<double, 2>();
  data::MiniBatchQueue queue(images, share,
                             {.mini_batch_size = options.mini_batch_size,
                              .shards = options.shards,
                              .order = {.shuffle = data::Shuffle::never}});
  const data::InputFormat format{model.parts().weights.type(), model.parts().weights.device(), options.mean,
                                 options.deviation};
  StreamStates states;
  while (const auto batch = queue.next()) {
    for (data::Shard shard : batch->shards) {
      shard.input = data::to_input(shard.images, format);
      const at::Tensor all = model.predict(shard, &states);
      const auto [logits, target] = labelled(all, shard.target.to(all.device()));
      if (target.numel() == 0) continue;
      const int64_t row = batch->cursor.step * options.shards + shard.index;
      values[row][0] = nn::cross_entropy_sum(logits, target).item<double>();
      values[row][1] = static_cast<double>(logits.argmax(1).eq(target).sum().item<int64_t>());
      values[row][2] = static_cast<double>(target.numel());
    }
  }
  return sums;
}

void check_samples(int64_t count) {
  if (count == 0) throw Error(ErrorCode::invalid_option, "there is no sample to validate on");
}

}  // namespace

Validation validate(const BuiltModel& model, std::shared_ptr<const data::ImageSet> images,
                    comm::Communicator& comm, const ValidationOptions& options) {
  check_samples(images->size());
  const at::Tensor sums = own_sums(model, images, comm.share(), options);
  comm.all_reduce({sums}, comm::Reduction::sum);  // exact: adds one rank's number to zeros
  auto values = sums.accessor<double, 2>();
  double loss = 0, correct = 0, count = 0;
  for (int64_t row = 0; row < sums.size(0); ++row) {
    loss += values[row][0];
    correct += values[row][1];
    count += values[row][2];
  }
  if (count == 0)
    throw Error(ErrorCode::invalid_option,
                "none of the " + counted(images->size(), "sample") + " to validate on has a class");
  return {loss / count, correct / count, images->size()};
}

Validation validate(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                    const ValidationOptions& options) {
  check_samples(dataset.size());
  const data::ImageFormat format = format_of(model.input());
  BuiltModel::Parts& parts = model.parts();
  const auto& [share, most_bytes] = parts.images;
  const bool kept = dataset.size() <= most_bytes / kKeptPart / format.size().bytes();
  parts.validated = share->open(dataset, format, kept ? most_bytes : 0);
  return validate(model, parts.validated, comm, options);
}

Patience::Patience(int64_t validations) : validations_(validations) {
  if (validations < 1)
    throw Error(ErrorCode::invalid_option,
                "patience cannot be " + std::to_string(validations) + ": it must be 1 or more validations",
                "leave it out if the loop never ends early");
}

bool Patience::ends_after(const Validation& validation) {
  const bool better = std::isfinite(validation.loss) && validation.accuracy > best_accuracy_;
  if (better) best_accuracy_ = validation.accuracy;
  since_best_ = better ? 0 : since_best_ + 1;
  return since_best_ >= validations_;
}

double accuracy(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                const ValidationOptions& options) {
  return validate(model, dataset, comm, options).accuracy;
}

}  // namespace lockstep::train
