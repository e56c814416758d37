// What a network's frozen first layers give for every sample of a dataset, computed once: they give the same in every epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/data/picture_set.h"
#include "lockstep/train/replica.h"

namespace lockstep::train {

/// Filled by all workers of a process together, then read by any. Samples are computed in groups of neighbours in the dataset, the same groups for any
/// number of workers, so the bits do not depend on it.
class Features {
 public:
  explicit Features(std::shared_ptr<const data::PictureSet> pictures);

  /// This worker's part of the samples, with its own replica. Stops between groups. Throws what reading a picture throws.
  void compute(Share share, Replica& replica, const std::stop_token& stop);

  /// For these samples, int64 [b] on the host: [b,...] on the host, as the frozen layers give them. After a barrier that follows compute().
  at::Tensor rows(const at::Tensor& samples) const;

  const data::PictureSet& pictures() const { return *pictures_; }
  int64_t bytes() const { return kept_.defined() ? static_cast<int64_t>(kept_.nbytes()) : 0; }

 private:
  void keep(int64_t first, const at::Tensor& output);

  std::shared_ptr<const data::PictureSet> pictures_;
  std::mutex mutex_;
  at::Tensor kept_;             // [samples, numbers], in the order of memory of an output
  std::vector<int64_t> shape_;  // of one output, without the batch
  bool channels_last_ = false;
};

}  // namespace lockstep::train
