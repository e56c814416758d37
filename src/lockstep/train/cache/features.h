// What a network's frozen first layers give for every sample of a dataset, computed once: they give the same
// in every epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/record_file.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

/// Where features lie beside, or in place of, memory.
struct FeatureStorage {
  bool in_memory = true;
  std::shared_ptr<const data::RecordFile> file = nullptr;  ///< of features_key; null only in memory
  uint64_t frozen = 0;  ///< hash_of_frozen of the weights that the file is for
};

/// Filled by all workers of a process together, then read by any. Samples are computed in groups of
/// neighbours in the dataset, the same groups for any number of workers, so the bits do not depend on it, nor
/// on what was computed and what was there in the file.
class Features {
 public:
  /// Of a file: one for each sample, and one after them that tells what an output looks like, so that a run
  /// that finds all computes nothing.
  static constexpr int64_t records(int64_t samples) { return samples + 1; }

  Features(std::shared_ptr<const data::ImageSet> images, FeatureStorage storage);

  /// Before compute(): takes away a file of other frozen weights than these (hash_of_frozen). Throws
  /// invalid_option where there is no memory to do without.
  void check_file(uint64_t frozen);

  /// This worker's part of the samples, with its own runner: what is not in the file, and one group where
  /// the file does not tell what an output looks like. Ranks begin at different places, so that those who
  /// share a file find there what others have computed. Stops between groups. Throws what reading an image
  /// throws. tell: called by this worker before each group, with the share of its part that is done, from 0
  /// to 1.
  void compute(Share thread, Share rank, ShardRunner& runner, const std::stop_token& stop,
               const std::function<void(double done)>& tell = {});

  /// For these samples, int64 [b] on the host: [b,...] on the host, as the frozen layers give them. After a
  /// barrier that follows compute(). The runner computes again what a disk did not take, or lost.
  at::Tensor rows(const at::Tensor& samples, ShardRunner& runner) const;

  const data::ImageSet& images() const { return *images_; }
  int64_t bytes() const { return images_->size() * record_bytes_; }
  int64_t computed() const { return computed_; }  ///< samples, by this process
  const data::RecordFile* file() const { return storage_.file.get(); }

 private:
  struct Group;                       // of samples
  struct Form {                       // of one output
    std::vector<int64_t> shape = {};  // without the batch
    bool channels_last = false;
    at::ScalarType type = at::kFloat;
  };
  static Form form_of(const at::Tensor& output);
  std::optional<Form> stored_form() const;
  void store_form() const;
  void take_form(Form form);
  at::Tensor outputs_of(const Group& group, ShardRunner& runner) const;
  at::Tensor as_rows(const at::Tensor& output) const;  ///< [b,numbers], in the order of memory of an output
  void keep(const Group& group, const at::Tensor& rows);
  bool find(const Group& group);
  std::span<uint8_t> bytes_of(at::Tensor& rows, int64_t row) const;

  std::shared_ptr<const data::ImageSet> images_;
  FeatureStorage storage_;
  bool form_was_stored_ = false;
  std::once_flag form_known_;
  Form form_;
  int64_t numbers_ = 0;  // of one output
  int64_t record_bytes_ = 0;
  at::Tensor kept_;  // [samples, numbers], in the order of memory of an output; undefined where they are not
                     // kept in memory
  std::atomic<int64_t> computed_ = 0;
};

}  // namespace lockstep::train
