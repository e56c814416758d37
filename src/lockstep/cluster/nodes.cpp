#include "lockstep/cluster/nodes.h"

#include <algorithm>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/ssh.h"

namespace lockstep::cluster {
namespace {

std::string ask_sinfo(const Profile& profile, std::vector<std::string> options,
                      const std::stop_token& stop = {}) {
  options.insert(options.begin(), {"sinfo", "--noheader"});
  const CommandEnd end =
      run_command(profile.login.empty()
                      ? options
                      : ssh_words({.login = profile.login, .words = options, .host_key = profile.host_key}),
                  {.stop = stop});
  if (end.status == 0) return end.output;
  if (!profile.login.empty() && end.status == kSshFailed) throw_ssh_error(profile.login, end.errors);
  throw Error(ErrorCode::cluster,
              end.out_of_time ? "sinfo did not answer within a minute"
                              : "sinfo failed: " + printable(first_line(end.errors)),
              end.status == 127 ? "run this where Slurm's commands are, or set \"login\" in the profile"
                                : "look whether Slurm's controller is there: scontrol ping");
}

// "16+": of several kinds of nodes the smallest.
int64_t number_in(std::string text) {
  text.resize(std::min(text.size(), text.find_first_not_of("0123456789")));
  return parse_number<int64_t>(text).value_or(0);
}

Node this_machine() {
  return {.host = host_name(),
          .state = "here",
          .cores = static_cast<int64_t>(std::thread::hardware_concurrency())};
}

}  // namespace

int64_t gpus_in_gres(std::string_view gres) {
  int64_t count = 0;
  for (std::string entry : split(gres, ',')) {
    entry.resize(std::min(entry.size(), entry.find('(')));
    const std::vector<std::string> parts = split(entry, ':');
    if (parts.front() != "gpu") continue;
    count += parts.size() > 1 ? parse_number<int64_t>(parts.back()).value_or(1) : 1;
  }
  return count;
}

std::vector<Partition> read_partitions(std::string_view text) {
  std::vector<Partition> partitions;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> parts = split(line, '|');
    if (parts.size() < 5 || parts[0].empty()) continue;
    const bool is_default = parts[0].back() == '*';
    const Partition row{.name = parts[0].substr(0, parts[0].size() - (is_default ? 1 : 0)),
                        .is_default = is_default,
                        .nodes = number_in(parts[1]),
                        .cores = number_in(parts[2]),
                        .gpus = gpus_in_gres(parts[3]),
                        .time = parts[4]};
    const auto known = std::find_if(partitions.begin(), partitions.end(),
                                    [&](const Partition& one) { return one.name == row.name; });
    if (known == partitions.end()) {
      partitions.push_back(row);
    } else {
      known->nodes += row.nodes;
      known->cores = std::min(known->cores, row.cores);
      known->gpus = std::min(known->gpus, row.gpus);
    }
  }
  return partitions;
}

std::vector<Partition> slurm_partitions() {
  return read_partitions(ask_sinfo({}, {"--format=%P|%D|%c|%G|%l"}));
}

std::vector<Node> nodes_of(const Profile& profile, const std::stop_token& stop) {
  if (profile.scheduler != "slurm") return {this_machine()};
  std::vector<std::string> options{"--Node", "--format=%N|%T|%c|%m|%G|%E"};
  if (!profile.partition.empty()) options.push_back("--partition=" + profile.partition);
  std::vector<Node> nodes;
  for (const std::string& line : split(ask_sinfo(profile, options, stop), '\n')) {
    const std::vector<std::string> parts = split(line, '|');
    if (parts.size() < 6) continue;
    const std::string reason = join({parts.begin() + 5, parts.end()}, "|");
    const bool is_known =
        std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.host == parts[0]; });
    if (!is_known)
      nodes.push_back({.host = parts[0],
                       .state = parts[1],
                       .cores = number_in(parts[2]),
                       .memory_mb = number_in(parts[3]),
                       .gpus = parts[4] == "(null)" ? "" : parts[4],
                       .reason = reason == "none" ? "" : reason});
  }
  return nodes;
}

}  // namespace lockstep::cluster
