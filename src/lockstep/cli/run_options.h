// The options of train::Options as commands take them: all of them for training, those of execution for
// inference.
#pragma once

#include <vector>

#include "lockstep/cli/verb.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// Switches the output of a command to JSON.
struct JsonOutput {
  bool json = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("json", self.json, "print JSON instead of text");
  };
};

/// How ranks that a launcher started reach each other.
struct RankSettings {
  comm::CommunicatorKind communicator = comm::CommunicatorKind::auto_;
  int64_t join_timeout = 300;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Ranks");
    field("communicator", self.communicator,
          "what carries the words of ranks that a launcher started: memory that they share, or the network "
          "(gloo); auto: memory on one machine, gloo on several");
    field("join-timeout", self.join_timeout, "how long ranks wait for each other at the start, in seconds",
          between(1, 86'400));
  };
};

/// As a command of RankSettings asks for it; what is waited for goes to the console.
comm::Joining joining_of(const Call& call, Console& console);

std::vector<FieldInfo> operator+(std::vector<FieldInfo> fields, const std::vector<FieldInfo>& more);

/// Every training option, and --config.
std::vector<FieldInfo> training_fields();

/// The options of a run that is resumed, then those of --config, then those of the command line: the later
/// ones win. A drop factor or period without --lr-schedule means piecewise. Holds the CPU libraries to --isa;
/// at a resume without it, to the run's.
struct AskedOptions {
  train::Options options;
  std::vector<std::string> given;  ///< the names that were set, in a file or on the command line
};
AskedOptions training_options(const Call& call);

/// The options that decide where and how inference runs.
std::vector<FieldInfo> inference_fields();
train::Options inference_options(const Call& call);

}  // namespace lockstep::cli
