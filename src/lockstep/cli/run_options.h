// The options of train::Options as commands accept them: all of them for training, and the execution options
// for inference.
#pragma once

#include <vector>

#include "lockstep/cli/verb.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// The option that switches a command's output to JSON.
struct JsonOutput {
  bool json = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("json", self.json, "print JSON instead of text");
  };
};

/// How ranks that a launcher started communicate.
struct RankSettings {
  comm::CommunicatorKind communicator = comm::CommunicatorKind::auto_;
  int64_t join_timeout = 300;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Ranks");
    field("communicator", self.communicator,
          "how ranks that a launcher started communicate: through shared memory, or over the network "
          "(gloo); auto: memory on one machine, gloo on several");
    field("join-timeout", self.join_timeout,
          "maximum time that ranks wait for each other at the start, in seconds", between(1, 86'400));
  };
};

/// The group as a command's RankSettings ask for it; waits are reported on the console.
comm::Joining joining_of(const Call& call, Console& console);

std::vector<FieldInfo> operator+(std::vector<FieldInfo> fields, const std::vector<FieldInfo>& more);

/// Every training option, and --config.
std::vector<FieldInfo> training_fields();

/// The options of the resumed run, then those of --config, then those of the command line; later ones
/// override earlier ones. A drop factor or period without --lr-schedule implies piecewise. Restricts the CPU
/// libraries to --isa; at a resume without --isa, to the run's.
struct AskedOptions {
  train::Options options;
  std::vector<std::string> given;  ///< names of the options that were set in a file or on the command line
};
AskedOptions training_options(const Call& call);

/// The options that decide where and how inference runs.
std::vector<FieldInfo> inference_fields();
train::Options inference_options(const Call& call);

}  // namespace lockstep::cli
