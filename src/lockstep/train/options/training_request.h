// What fit needs beside options: data, network, who listens, and with whom it trains.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/image_share.h"
#include "lockstep/io/event.h"
#include "lockstep/nn/network.h"

namespace lockstep::device {
class GpuLink;
}

namespace lockstep::data {
class MiniBatchStream;
}

namespace lockstep::train {

struct Standing;

/// Hears what a run tells its log, on a thread of its own: it may take its time.
using Listener = std::function<void(const io::Event&)>;

/// What a run needs beside options.
struct TrainingRequest {
  std::filesystem::path folder;                     ///< the training data; used when `dataset` is empty
  data::Dataset dataset;                            ///< training data made by the caller
  std::shared_ptr<data::MiniBatchStream> stream{};  ///< training data in place of both: one pass over them,
                                                    ///< in averaging mode only. On each rank the same ones
  std::shared_ptr<Standing>
      standing{};  ///< a training that several calls of fit make: this one goes on where it stands, in its
                   ///< run folder, by max_epochs passes (max_steps is for all together), and leaves there
                   ///< where it ended; a call that throws leaves it as it was. Null: a training by itself.
                   ///< Rank 0's counts
  data::Dataset validation;  ///< held-out data made by the caller; else --validation, else the split
  data::Dataset test;        ///< tested once, at the end
  nn::Network network;       ///< a network of the caller's own; empty: options.network
  io::Observer observer;  ///< called between steps on rank 0's thread; returning stop ends the run and keeps
                          ///< the weights
  Listener listener;      ///< hears the run's events; see trial_progress.h for one
  std::vector<std::string>
      given;  ///< at resume: names of options that were asked for although they are at their defaults
  bool console = false;      ///< progress and curves on standard output
  std::stop_token stop;      ///< ends the run at the next shard, with a checkpoint
  std::stop_token enough{};  ///< ends the run after the step under way, with its weights, as an observer does
  std::shared_ptr<data::ImageShare> images;  ///< decoded images shared with other runs; empty: in a
                                             ///< task those of its pool's process, else none
  comm::Communicator* comm = nullptr;  ///< the ranks that train together, each with the same job: null, this
                                       ///< process alone. Rank 0 decides, has the run folder, and is the only
                                       ///< one that says anything; an error breaks the group
  std::vector<int64_t> gpus{};  ///< that it has where its options name none: in a task those of its group
  int64_t ranks_here = 1;       ///< of these, how many are on this machine and so share its memory
  int64_t rank_here = 0;        ///< this one's place among them, which decides its GPU
  std::shared_ptr<device::GpuLink> gpu_link{};  ///< for ranks that are the GPUs of one process (gpu_ranks.h),
                                                ///< whose options.workers are those of all
};

enum class EndReason { finished, patience, max_time, observer, stopped, already_finished };
constexpr std::array<const char*, 6> enum_names(EndReason) {
  return {"finished", "patience", "max-time", "observer", "stopped", "already-finished"};
}

}  // namespace lockstep::train
