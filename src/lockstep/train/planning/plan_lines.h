// The plan in words: what was chosen, line by line, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/device/inventory.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/shard_deal.h"

namespace lockstep::train {

/// What a finished plan no longer shows: what the user asked for, and why a value was chosen. Reasons are in
/// words, for the end of a line.
struct PlanReasons {
  bool dry = false;  ///< nothing is created, as by `lockstep plan`

  std::string source;  ///< the kind of data that were opened; empty: the caller gave them
  std::vector<std::string> source_warnings;  ///< of OpenedData
  std::string normalization_warning;
  bool none_held_out = false;  ///< although some were to be
  std::string image_size;
  std::string color;
  std::string normalize;  ///< the option
  std::string weights;    ///< where the weights to start from come from
  std::string validation;
  std::string test;  ///< where the test data come from
  bool sorted_by_length = false;

  std::string network;
  std::string features;        ///< why the outputs of frozen layers are kept, or not
  bool channels_last = false;  ///< images of a user's module are stored channels last

  std::string device;
  std::string workers;
  ShardDeal deal;
  std::string loaders;  ///< processes that decode images for the ranks; empty: none
  int64_t loader_count = 0;
  bool shards_given = false;
  std::string mini_batch;  ///< may be empty
  bool batch_norm_group_given = false;
  int64_t ranks = 1;
  bool length_given = false;
  bool rate_to_be_tested = false;  ///< learning-rate auto, given or by the recipe
  std::string precision;
  std::string cuda_graphs;  ///< why they are used, or not; empty on a CPU

  std::string resident;       ///< on a GPU: why images lie in its memory, or not; otherwise empty
  std::string cache_option;   ///< --cache
  std::string cache_file;     ///< of decoded training images; empty: none
  std::string cache;          ///< why there is none; may be empty
  int64_t image_bytes = 0;    ///< of one decoded image
  int64_t allowed_bytes = 0;  ///< of memory for images, on the whole machine
};

/// What is known from the options alone. inventory: of this machine.
PlanReasons reasons_of(const Options& options, const device::Inventory& inventory);

/// Warnings for the user, before all lines: workers that would have nothing to do, and the options that give
/// them something; with a recipe also what the data make doubtful.
std::vector<std::string> plan_warnings(const Plan& plan, const PlanReasons& reasons, bool resumed);

/// All lines of the resolved plan, in order. A network that is a layer graph is examined again, for its
/// convolutions.
std::vector<PlanLine> plan_lines(const Plan& plan, const nn::Network& network, const PlanReasons& reasons);

}  // namespace lockstep::train
