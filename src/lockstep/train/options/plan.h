// What a run will do: every option resolved, and why. Made once, printed by `lockstep plan`, kept in the
// manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/data/order.h"
#include "lockstep/data/image_set.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// One line of `lockstep plan`: what was chosen, and the reason in words.
struct PlanLine {
  std::string name;
  std::string value;
  std::string reason;
};

/// Resolved values. The parts that decide the weights (`arithmetic`) do not depend on the machine; the rest
/// does.
struct Plan {
  nn::NetworkInput input;
  std::string network;  ///< its name
  int64_t parameter_count = 0;
  int64_t learned_count = 0;                ///< of these, those that are not frozen
  std::vector<std::string> fresh_layers;    ///< of --head new
  std::vector<std::string> dropped_layers;  ///< of the file's network, which this one has not
  size_t frozen_layers = 0;    ///< the network's first layers, so many, give the same for an image in every
                               ///< step (nn::frozen_layers)
  bool keep_features = false;  ///< what they give is computed once and kept
  bool features_on_disk = false;  ///< and does not fit the memory, so that it lies in files only
  data::ImageFormat format;
  std::vector<int64_t> resize_to;  ///< height and width that images are fitted to before format's size is
                                   ///< cut out of their centre (training images: see queue_cut); empty: not
  std::vector<double> mean;        ///< of pixels / 255, per channel; empty: none
  std::vector<double> deviation;
  std::vector<std::string> classes;
  int64_t train_count = 0;  ///< 0 where streamed
  bool streamed = false;    ///< one pass over mini-batches that a program gives (TrainingRequest::stream),
                            ///< which ends the run
  int64_t validation_count = 0;
  int64_t test_count = 0;
  uint64_t listing_hash = 0;             ///< of the training images, before the split
  uint64_t validation_listing_hash = 0;  ///< of held-out images that are not split off

  int64_t mini_batch_size = 128;  ///< samples in a step, after scaling with workers; in averaging mode over
                                  ///< all replicas; of sequences in pieces the slots
  int64_t tbptt_length =
      0;  ///< above 0: sequences in pieces of so many time steps, in unchanged order, with state carried on
  double learning_rate = 0.01;  ///< after scaling with workers
  ScheduleKind lr_schedule = ScheduleKind::cosine;
  int64_t shards = 8;            ///< in averaging mode replicas
  int64_t sampler_replicas = 0;  ///< of --sample-order distributed-sampler: workers when the run began, in
                                 ///< averaging mode replicas; 0: no such order
  Precision precision = Precision::single;  ///< never auto_
  int64_t max_epochs = 8;
  int64_t max_steps = 0;  ///< 0: no limit of its own
  int64_t first_step =
      0;  ///< steps that earlier calls of fit have made of the same training (TrainingRequest::standing)
  int64_t first_epoch = 0;       ///< and passes over their data
  int64_t total_steps = 0;       ///< first_step and max_epochs * steps_per_epoch, or max_steps when that is
                                 ///< smaller; 0: not known, see streamed
  int64_t schedule_steps = 0;    ///< over which the learning rate's cosine falls: total_steps, or max_steps
                                 ///< where further calls of fit may follow
  int64_t steps_per_epoch = 0;   ///< 0: not known
  int64_t validate_every = 0;    ///< steps
  int64_t patience = 0;          ///< validations without a better accuracy that end the run; 0: none do
  int64_t checkpoint_every = 0;  ///< steps
  int64_t hash_every = 0;        ///< steps

  std::string device = "cpu";    ///< "cpu" or "cuda"
  std::vector<int64_t> devices;  ///< the GPUs of this process; empty on a CPU
  int64_t gpu = -1;              ///< of these, this rank's
  int64_t workers = 1;           ///< of all ranks
  int64_t cores = 1;             ///< allowed by affinity and control group
  int64_t read_ahead = 4;        ///< steps whose samples are read ahead
  bool keep_images = true;
  bool cached_images =
      false;                 ///< decoded training images lie on disk, at the latest from the second epoch on
  bool cuda_graphs = false;  ///< shards are recorded and replayed
  bool resident = false;     ///< training and held-out images lie on this rank's GPU
  std::string fingerprint;   ///< arithmetic: instruction set, libraries, build
  std::vector<std::string>
      warnings;                 ///< what a user should change before a long run, a sentence each; told first
  std::vector<PlanLine> lines;  ///< all of it for people, in order
};

/// In which order the training samples come.
data::Order sample_order(const Plan& plan, const Options& options);

/// {height, width} that the queue cuts out of training images, which are then kept as large as
/// plan.resize_to (data::QueueOptions::cut_out): where the augmentation chooses the part. Empty: the training
/// images have plan.format's size, as all others always do.
std::vector<int64_t> queue_cut(const Plan& plan, const Options& options);

/// The plan as a manifest keeps it.
Json to_json(const Plan& plan);

}  // namespace lockstep::train
