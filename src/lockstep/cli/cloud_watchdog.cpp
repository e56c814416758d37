// Stops a cluster when nothing progresses or its budget is spent. Runs on its head node.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cloud/request.h"
#include "lockstep/cloud/watchdog.h"
#include "lockstep/cluster/command.h"

namespace lockstep::cli {
namespace {

constexpr auto kStopLimit = std::chrono::minutes(15);
constexpr int64_t kMostState = 1 << 16;

struct WatchdogChoice {
  std::string idle = "30m";
  double budget = 0;
  double machine_price = 0;
  double head_price = 0;
  bool slurm = false;
  std::string state;
  std::string stop_command;
  double every = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Limits");
    field("idle", self.idle,
          "stop after this time without a step, a validation or a checkpoint: 90s, 30m; 0: never");
    field("budget", self.budget, "stop when this number of dollars is spent since the start; 0: no limit",
          between(0, 1e6));
    field("machine-price", self.machine_price, "dollars an hour of each worker machine that is on",
          between(0, 1000));
    field("head-price", self.head_price, "dollars an hour of the head node", between(0, 1000));
    field("Looking");
    field("slurm", self.slurm, "ask Slurm which machines are on");
    field("state", self.state, "file that keeps what was seen, between two looks");
    field("stop-command", self.stop_command, "program that stops the cluster; its word is the reason");
    field("every", self.every,
          "look again after this number of seconds, until the cluster is stopped; 0: look once",
          between(0, 86'400));
  };
};

cloud::WatchdogState read_state(const std::string& file) {
  cloud::WatchdogState state;
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return state;
  try {
    read_json(parse_json(read_file(file, kMostState)), state, "");
  } catch (const std::exception&) {
    return {};  // a damaged file: the limits begin anew, and the cluster is still stopped
  }
  return state;
}

// A full disk must not keep the cluster on.
void save_state(const cloud::WatchdogState& state, const std::string& file, Console& console) {
  if (file.empty()) return;
  try {
    write_file_atomic(file, to_json(state).dump() + "\n");
  } catch (const Error& error) {
    console.note("warning: " + printable(error.message()) + "\n");
  }
}

// True once the cluster was told to stop.
bool look_once(const Call& call, const WatchdogChoice& choice, cloud::WatchdogState& state,
               Console& console) {
  cloud::Sight sight{.now = now_seconds(), .session = cloud::boot_session()};
  sight.progressed = cloud::latest_progress({call.words.begin(), call.words.end()}, sight.now);
  if (choice.slurm) {
    try {
      cloud::look_at_slurm(sight);
    } catch (const Error& error) {
      console.note("warning: " + printable(error.message()) + "\n");  // the idle limit counts all the same
    }
  }
  const cloud::WatchdogLimits limits{.idle = static_cast<double>(cloud::parse_seconds(choice.idle, "idle")),
                                     .budget = choice.budget,
                                     .machine_price = choice.machine_price,
                                     .head_price = choice.head_price};
  const cloud::Verdict verdict = cloud::look(limits, sight, state);
  save_state(state, choice.state, console);
  if (!verdict.stop) return false;
  console.print("stopping the cluster: " + verdict.reason + "\n");
  if (choice.stop_command.empty()) return true;
  const cluster::CommandEnd end =
      cluster::run_command({choice.stop_command, verdict.reason}, {.limit = kStopLimit});
  if (end.status != 0)
    throw Error(ErrorCode::cluster,
                quote(choice.stop_command) + " ended with status " + std::to_string(end.status) + ": " +
                    printable(first_line(end.errors)),
                "the next look tries again");
  return true;
}

}  // namespace

std::vector<FieldInfo> cloud_watchdog_fields() { return fields_of<WatchdogChoice>(); }

int run_cloud_watchdog(const Call& call, Console& console) {
  const auto choice = settings_of<WatchdogChoice>(call);
  cloud::WatchdogState state = read_state(choice.state);
  if (choice.every <= 0) {
    look_once(call, choice, state, console);
    return 0;
  }
  launch::StopSignals signals("");
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!signals.token().stop_requested() && !look_once(call, choice, state, console))
    never.wait_for(lock, signals.token(), std::chrono::duration<double>(choice.every), [] { return false; });
  return signals.signal() == 0 ? 0 : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
