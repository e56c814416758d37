#include "lockstep/cloud/watchdog.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"

namespace lockstep::cloud {
namespace {

namespace fs = std::filesystem;

constexpr double kSecondsPerHour = 3600;
constexpr double kStartSeconds = 15 * 60;
constexpr int kMostDepth = 10;
constexpr int64_t kMostTail = int64_t{1} << 20;
constexpr size_t kMostLine = size_t{1} << 16;
// Kinds of events that are progress (record/event_kinds.h).
constexpr std::array<std::string_view, 4> kProgress{"step", "first_step", "validation", "checkpoint"};
constexpr auto kSlurmLimit = std::chrono::seconds(20);

std::string tail_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const int64_t size = in.tellg();
  if (!in || size <= 0) return "";
  const int64_t wanted = std::min(size, kMostTail);
  in.seekg(size - wanted);
  std::string text(static_cast<size_t>(wanted), '\0');
  in.read(text.data(), wanted);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return text;
}

// The time of the event if it is progress, else 0.
double progress_time(std::string_view line) {
  if (line.size() > kMostLine || line.find("\"kind\"") == std::string_view::npos) return 0;
  try {
    const Json event = parse_json(line);
    if (!event.is_object() || !event.contains("kind") || !event["kind"].is_string()) return 0;
    const auto kind = event["kind"].get<std::string>();
    if (std::find(kProgress.begin(), kProgress.end(), kind) == kProgress.end()) return 0;
    return event.contains("time") && event["time"].is_number() ? event["time"].get<double>() : 0;
  } catch (const Json::exception&) {
    return 0;  // the last line may be half written
  }
}

double written_at(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  if (error) return 0;
  return std::chrono::duration<double>(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

double latest_in(const fs::path& file, double now) {
  const std::string text = tail_of(file);
  size_t end = text.size();
  while (end > 0) {
    const size_t before = text.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const double time = progress_time(std::string_view(text).substr(begin, end - begin));
    if (time > 0) return time <= now ? time : std::min(now, written_at(file));
    end = before == std::string::npos ? 0 : before;
  }
  return 0;
}

bool is_event_log(const fs::path& file) {
  return file.extension() == ".jsonl" && file.parent_path().filename() == "events";
}

std::string slurm(const std::vector<std::string>& words) {
  const cluster::CommandEnd end = cluster::run_command(words, {.limit = kSlurmLimit});
  if (end.status != 0)
    throw Error(ErrorCode::cluster, words.front() + " ended with status " + std::to_string(end.status) +
                                        ": " + first_line(end.errors));
  return end.output;
}

}  // namespace

Verdict look(const WatchdogLimits& limits, const Sight& sight, WatchdogState& state) {
  if (state.session != sight.session)
    state = {.session = sight.session, .started = sight.now, .looked = sight.now, .progressed = sight.now};
  const double passed = std::max(0.0, sight.now - state.looked);
  state.machines = sight.machines.value_or(state.machines);
  state.spent += passed / kSecondsPerHour *
                 (limits.head_price + static_cast<double>(state.machines) * limits.machine_price);
  state.looked = sight.now;
  // Also if the clock was set back since the last look.
  state.progressed = std::min(std::max(state.progressed, sight.progressed), sight.now);
  if (limits.budget > 0 && state.spent >= limits.budget)
    return {true, "it has cost $" + fixed(state.spent, 2) + ", the budget is $" + fixed(limits.budget, 2)};
  const double idle = sight.now - state.progressed;
  const double limit = limits.idle + (sight.is_starting ? kStartSeconds : 0);
  if (limits.idle > 0 && idle >= limit)
    return {true, "no step, validation or checkpoint for " + as_duration(idle) + ", the limit is " +
                      as_duration(limit)};
  return {};
}

double latest_progress(const std::vector<fs::path>& folders, double now) {
  double latest = 0;
  for (const fs::path& folder : folders) {
    std::error_code error;
    auto walk =
        fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
      if (walk.depth() >= kMostDepth) walk.disable_recursion_pending();
      if (!is_event_log(walk->path())) continue;
      // A log that was not written since then cannot have later progress.
      if (written_at(walk->path()) > latest) latest = std::max(latest, latest_in(walk->path(), now));
    }
  }
  return latest;
}

void look_at_slurm(Sight& sight) {
  // A suffix says that a machine is off (~), being turned off (%) or on (#); the last one costs already.
  int64_t machines = 0;
  for (const std::string& line : split(slurm({"sinfo", "-h", "-N", "-o", "%N %t"}), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() < 2 || words[1].empty()) continue;
    const bool is_off = words[1].ends_with('~') || words[1].starts_with("down");
    if (!is_off) ++machines;
  }
  sight.machines = machines;
  sight.is_starting = !slurm({"squeue", "-h", "-t", "configuring", "-o", "%A"}).empty();
}

std::string boot_session() { return first_line_of("/proc/sys/kernel/random/boot_id"); }

}  // namespace lockstep::cloud
