// What fit needs besides options: data, network, observers, and the ranks that train together.
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
#include "lockstep/record/event.h"
#include "lockstep/nn/network.h"

namespace lockstep::device {
class GpuLink;
}

namespace lockstep::data {
class MiniBatchStream;
}

namespace lockstep::train {

struct Standing;

/// Receives the events of a run on a thread of its own, so it may be slow.
using Listener = std::function<void(const record::Event&)>;

/// What a run needs besides options.
struct TrainingRequest {
  std::filesystem::path folder;                     ///< the training data; used when `dataset` is empty
  data::Dataset dataset;                            ///< training data made by the caller
  std::shared_ptr<data::MiniBatchStream> stream{};  ///< training data in place of both: one pass over the
                                                    ///< same mini-batches on each rank, in averaging mode
  std::shared_ptr<Standing>
      standing{};  ///< state of a training made by several calls of fit. This call continues it, in its run
                   ///< folder, by max_epochs passes (max_steps counts over all calls), and updates it; a call
                   ///< that throws leaves it unchanged. Null: a training of one call. Rank 0's is used
  data::Dataset validation;   ///< held-out data made by the caller; else --validation, else the split
  data::Dataset test;         ///< scored once, at the end
  nn::Network network;        ///< the caller's network; empty: options.network
  record::Observer observer;  ///< called between steps on rank 0's thread; if it returns stop, the run ends
                              ///< and keeps its weights, or as a stop does in the step after which it
                              ///< would begin again
  Listener listener;          ///< receives the run's events; for an example see trial_progress.h
  std::vector<std::string>
      given;  ///< at resume: names of options that were given, also with their default values
  std::vector<std::string> words{};  ///< command line of this run for its log; empty: the process's
  bool console = false;              ///< progress and curves on standard output
  std::stop_token stop;              ///< ends the run at the next shard, with a checkpoint
  std::stop_token enough{};  ///< ends the run after the step under way, with its weights, as an observer does
  std::shared_ptr<data::ImageShare> images;  ///< decoded images shared with other runs; empty: in a
                                             ///< task those of the pool's process, else none
  comm::Communicator* comm = nullptr;  ///< the ranks that train together, each with the same request; null:
                                       ///< this process alone. Rank 0 decides, has the run folder, and alone
                                       ///< prints and logs; an error breaks the group
  std::vector<int64_t> gpus{};         ///< GPUs to use if the options name none: in a task those of its group
  int64_t ranks_here = 1;              ///< number of ranks on this machine, which share its memory
  int64_t rank_here = 0;               ///< index of this rank among them, which decides its GPU
  std::shared_ptr<data::LoadingLine> line{};  ///< to processes that decode images for this rank; null: none
  std::string loaders{};     ///< who they are, for the plan; empty: nobody loads for any rank
  int64_t loader_count = 0;  ///< for all ranks
  bool needs_gpus = false;   ///< no rank may train on a CPU: gradients go from GPU to GPU
  std::shared_ptr<device::GpuLink> gpu_link{};  ///< for ranks that are the GPUs of one process (gpu_ranks.h);
                                                ///< options.workers then counts the workers of all
};

enum class EndReason { finished, patience, max_time, observer, request, stopped, already_finished };
constexpr std::array<const char*, 7> enum_names(EndReason) {
  return {"finished", "patience", "max-time", "observer", "request", "stopped", "already-finished"};
}

}  // namespace lockstep::train
