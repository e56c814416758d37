// Decides when a cluster is to be stopped: when no training has progressed for too long, or when the budget
// is spent. Runs on the head node and needs no client. A step, a validation and a checkpoint are progress; a
// process that lives, a heartbeat and a line in a log are not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::cloud {

struct WatchdogLimits {
  double idle = 0;           ///< seconds; 0: none
  double budget = 0;         ///< dollars since the head node started; 0: none
  double machine_price = 0;  ///< dollars an hour for each worker machine that is on
  double head_price = 0;     ///< dollars an hour
};

/// What is kept between two looks, in a file.
struct WatchdogState {
  std::string session{};  ///< of the head node: another one after it was off
  double started = 0;     ///< seconds since 1970
  double looked = 0;
  double progressed = 0;  ///< the latest progress
  double spent = 0;       ///< dollars since `started`
  int64_t machines = 0;   ///< worker machines that were on when Slurm last said it
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("session", self.session);
    field("started", self.started);
    field("looked", self.looked);
    field("progressed", self.progressed);
    field("spent", self.spent);
    field("machines", self.machines);
  };
};

/// One look at the cluster.
struct Sight {
  double now = 0;  ///< seconds since 1970
  std::string session{};
  double progressed = 0;  ///< time of the latest progress in any run's log; 0: none
  std::optional<int64_t>
      machines{};            ///< worker machines that are on; empty: not known, the last number counts
  bool is_starting = false;  ///< a job waits for machines that are being started
};

struct Verdict {
  bool stop = false;
  std::string reason{};  ///< of a stop: "no step, validation or checkpoint for 30:00, the limit is 30:00"
};

/// The clock is the caller's. While machines start for a job, the idle limit is a quarter of an hour longer.
Verdict look(const WatchdogLimits& limits, const Sight& sight, WatchdogState& state);

/// Time of the latest step, validation or checkpoint in the logs of all runs at or below these folders; 0:
/// none. A time that lies after `now` counts as the time at which its file was written.
double latest_progress(const std::vector<std::filesystem::path>& folders, double now);

/// What Slurm's commands say about machines and jobs, put into `sight`. Throws cluster.
void look_at_slurm(Sight& sight);

/// Of this boot of this machine.
std::string boot_session();

}  // namespace lockstep::cloud
