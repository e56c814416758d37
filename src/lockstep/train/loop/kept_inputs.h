// Inputs of the network that are made once and kept during a run: the output of frozen layers, and images in
// a GPU's memory.
#pragma once

#include <deque>
#include <vector>

#include "lockstep/comm/thread_group.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/loop/run_reports.h"
#include "lockstep/train/loop/worker.h"

namespace lockstep::train {

/// Shared by the workers of a process, for the training data and the held-out data. If a run keeps nothing,
/// every call does nothing.
class KeptInputs {
 public:
  /// All must outlive the object.
  KeptInputs(const TrainingSetup& setup, comm::ThreadGroup& group, RunReports& reports);

  /// Before the workers start, on one thread: drops feature files of other weights, and takes memory on the
  /// GPU. If the memory is not there the run continues without it, unless it is required.
  void open(const SharedWeights& weights, const nn::Instance& prototype);

  /// Every worker, before the first step: computes the features and loads the images. Ends with a barrier.
  /// After a stop some are missing, and nothing reads them: there is no first mini-batch.
  void fill(Worker& worker);

  /// Whether mini-batches of training data come with their images.
  BatchImages batch_images() const;
  /// The same for these images.
  BatchImages batch_images(const data::ImageSet& images) const;

  /// Gives these shards their images, if they are on the GPU. Any thread.
  void add_images(const data::ImageSet& images, std::vector<data::Shard>& shards) const;
  /// Gives the shard its features as `input`, if they are kept. Any thread, with its own runner.
  void add_features(const data::ImageSet& images, data::Shard& shard, ShardRunner& runner) const;

  /// Says once that a cache on disk has failed. The first worker, between steps.
  void report_cache_failure();

 private:
  void open_features(const SharedWeights& weights, const nn::Instance& prototype);
  void open_resident();
  void compute_features(Worker& worker);
  void load_images(Worker& worker);
  void report_progress(int64_t done, double seconds);
  void report_features(double seconds);
  const Features* features_of(const data::ImageSet& images) const;
  const ResidentImages* resident_of(const data::ImageSet& images) const;

  const TrainingSetup& setup_;
  comm::ThreadGroup& group_;
  RunReports& reports_;
  const std::shared_ptr<KeptFeatures> kept_;
  std::deque<Features>& features_;        // those of kept_
  std::vector<ResidentImages> resident_;  // of training data, of held-out data
  bool said_cache_failure_ = false;
};

}  // namespace lockstep::train
