#include "lockstep/cluster/cluster.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/cluster/lockstep_command.h"

namespace lockstep::cluster {
namespace {

constexpr std::chrono::milliseconds kBetweenNodeLooks{5000};
constexpr std::chrono::seconds kPowerLimit{3600};  // until all machines of a cloud are there

int64_t count_up(const std::vector<Node>& nodes) {
  return std::count_if(nodes.begin(), nodes.end(), [](const Node& node) {
    // One that is off (~) or being turned on (#) takes a job.
    return node.state.find_first_of("*%$@^") == std::string::npos &&
           node.state.find("down") == std::string::npos && node.state.find("drain") == std::string::npos;
  });
}

}  // namespace

int64_t Cluster::nodes_up() const { return count_up(show()); }

bool Cluster::wait(const WaitForNodes& options) const {
  const int64_t wanted = options.nodes > 0 ? options.nodes : profile().nodes;
  const auto start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  for (int64_t told = -1; !options.stop.stop_requested();) {
    int64_t up = 0;
    try {
      up = count_up(nodes_of(profile(), options.stop));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;
      return false;
    }
    if (up != told && options.tell) options.tell(up);
    told = up;
    if (up >= wanted) return true;
    const auto left = options.limit - std::chrono::duration_cast<std::chrono::milliseconds>(
                                          std::chrono::steady_clock::now() - start);
    if (left <= left.zero()) return false;
    never.wait_for(lock, options.stop, std::min(left, kBetweenNodeLooks), [] { return false; });
  }
  return false;
}

std::string Cluster::start() const { return run_lockstep({"cluster", "start", name()}, kPowerLimit); }

std::string Cluster::stop() const { return run_lockstep({"cluster", "stop", name()}, kPowerLimit); }

std::string Cluster::validate() const { return run_lockstep({"cluster", "validate", name()}, kPowerLimit); }

}  // namespace lockstep::cluster
