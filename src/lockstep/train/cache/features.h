// Features: the output of a network's frozen first layers for every sample of a dataset. They are computed
// once, because they are the same in every epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
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

/// Where features are kept: in memory, in a file, or both.
struct FeatureStorage {
  bool in_memory = true;
  std::shared_ptr<const data::RecordFile> file = nullptr;  ///< of features_key; null: only in memory
  uint64_t frozen = 0;                                     ///< hash_of_frozen of the file's weights
};

/// All workers of a process compute the features together, then any worker reads them. Neighbouring samples
/// of the dataset are computed in groups, the same groups for any number of workers. So the bits do not
/// depend on the number of workers, or on which samples were found in the file.
class Features {
 public:
  /// The number of records in a file: one for each sample, then one with the form of an output, so that a run
  /// that finds all of them computes nothing.
  static constexpr int64_t records(int64_t samples) { return samples + 1; }

  Features(std::shared_ptr<const data::ImageSet> images, FeatureStorage storage);

  /// Before compute(): drops a file with other frozen weights than these (hash_of_frozen). Throws
  /// invalid_option if the features do not fit into memory either.
  void check_file(uint64_t frozen);

  /// Computes this worker's part of the samples with its own runner: those that are not in the file, and one
  /// group if the file does not have the form of an output. Each call has an order of its own, so that ranks,
  /// and trials of a sweep, that have a common file find there what others have computed. Stops between
  /// groups. Throws what reading an image throws. tell: called by this worker before each group, with the
  /// share of its part that is done, from 0 to 1.
  void compute(Share thread, ShardRunner& runner, const std::stop_token& stop,
               const std::function<void(double done)>& tell = {});

  /// The features of these samples, int64 [b] on the host, as [b,...] on the host. After a barrier that
  /// follows compute(). The runner computes features again that could not be written to the file, or are
  /// damaged there.
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
  at::Tensor as_rows(const at::Tensor& output) const;  ///< [b,numbers], in an output's order of memory
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
  at::Tensor kept_;  // [samples, numbers], in an output's order of memory; undefined if kept in a file only
  std::atomic<int64_t> computed_ = 0;
};

/// The features of a training, for another one of the same frozen weights and data.
struct KeptFeatures {
  std::deque<Features> sets;  ///< of training data, of held-out data
  bool filled = false;        ///< all are computed
};

}  // namespace lockstep::train
