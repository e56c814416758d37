// The plan in words: what was chosen, line by line, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// What a finished plan no longer tells of how it came about; in words, for the end of a line.
struct PlanReasons {
  std::string source;  ///< what kind of data were opened; empty: given from C++
  std::string image_size;
  std::string color;
  std::string validation;
  std::string network;
  std::string features;    ///< kept, or why not
  std::string mini_batch;  ///< may be empty
  std::string precision;
  bool channels_last = false;  ///< a module of the user's own takes images so
  std::string device;
  std::string workers;
  std::string cuda_graphs;  ///< where they were asked for: whether they are used, and why; else empty
  std::string resident;     ///< on a GPU: whether and why images lie there; else empty
  std::string cache_file;   ///< of decoded training images; empty: none
  std::string cache;        ///< why there is none; empty: nothing to say
  bool dry = false;         ///< nothing is made, `lockstep plan`
  int64_t image_bytes = 0;
  int64_t memory_bytes = 0;  ///< of the machine
};

/// What is told before all lines: workers that would have nothing to do, and the options that give them
/// something.
std::vector<std::string> plan_warnings(const Plan& plan, const Options& options);

/// All lines of the resolved `plan`, in order. Reads a network that is a layer graph once more, for its
/// convolutions.
std::vector<PlanLine> plan_lines(const Plan& plan, const Options& options, const nn::Network& network,
                                 const PlanReasons& reasons);

}  // namespace lockstep::train
