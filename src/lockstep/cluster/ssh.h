// Commands on the login node of a cluster, by the system's ssh: its configuration, keys and known hosts
// count.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// The words that run `words` on the profile's login node. The host's key must be known, nobody is asked for
/// a password, and one connection serves several commands for a minute. on_terminal: with a terminal there.
struct SshCommand {
  std::string login;
  std::vector<std::string> words;
  std::string host_key{};         ///< the login node's, as in a profile; empty: known_hosts decides
  bool on_terminal = false;       ///< with a terminal there, on which only output is seen
  bool shares_connection = true;  ///< false: one of its own, whose end is the command's
};
std::vector<std::string> ssh_words(const SshCommand& command);

/// What ssh said, as an error with a hint; ssh itself failed with status 255.
inline constexpr int kSshFailed = 255;
[[noreturn]] void throw_ssh_error(const std::string& login, const std::string& errors);

}  // namespace lockstep::cluster
