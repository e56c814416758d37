// The machines of `lockstep run --hosts`, and which ranks run on each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct Host {
  std::string name;       ///< as ssh knows it: "node-a", "me@node-a"
  int64_t slots = 0;      ///< the most ranks on it; 0: not given
  std::string address{};  ///< at which the other machines reach it; empty: the one at which ssh did
};

/// Lines "HOST [slots=N] [address=A]"; "#" begins a comment. The slots of a host on several lines add up.
/// Throws invalid_option with the line's number, also for a text without hosts.
std::vector<Host> read_hosts(std::string_view text);

/// A host and the ranks on it: first, first + 1, ...
struct HostShare {
  Host host;
  int64_t first = 0;
  int64_t ranks = 0;
};

/// Fills the slots of each host in turn. ranks: 0 is a rank for each slot. Hosts without slots are given
/// equal numbers. Hosts that get no rank are left out. Throws invalid_option for more ranks than slots.
std::vector<HostShare> share_ranks(const std::vector<Host>& hosts, int64_t ranks);

}  // namespace lockstep::cli
