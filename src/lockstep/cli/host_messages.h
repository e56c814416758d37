// What `lockstep run --hosts` and its agents on the hosts (`lockstep host-ranks`) tell each other over ssh:
// lines of JSON. After the line that starts the ranks the launcher sends bytes (RankStarter::orders).
#pragma once

#include <string>

#include "lockstep/base/json.h"
#include "lockstep/cli/rank_processes.h"

namespace lockstep::cli {

/// To the agent of rank 0: the place where the ranks meet is to be made there.
struct MeetOrder {
  std::string address{};     ///< to listen at; empty: the one at which ssh reached the host
  std::string run_folder{};  ///< of a training that may have begun before; empty: none
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("address", self.address, "");
    field("run_folder", self.run_folder, "");
  };
};

struct StartOrder {
  std::string working_folder{};
  RankProgram program{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("working_folder", self.working_folder, "");
    field("program", self.program, "");
  };
};

/// The first line of an agent.
struct Hello {
  std::string build{};  ///< build_text()
  int64_t cores = 0;
  std::string machine{};  ///< host_name()
  std::string address{};  ///< at which ssh reached it
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("build", self.build, "");
    field("cores", self.cores, "");
    field("machine", self.machine, "");
    field("address", self.address, "");
  };
};

struct Meeting {
  std::string address{};
  int64_t port = 0;
  std::string secret{};
  bool has_run = false;  ///< the training of MeetOrder::run_folder has begun
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("address", self.address, "");
    field("port", self.port, "");
    field("secret", self.secret, "");
    field("has_run", self.has_run, "");
  };
};

/// The keys of an agent's lines. "print" and "note" have a text, "failed" has an error's text and hint,
/// "ended" has a RanksEnd.
namespace say {
inline constexpr const char* kHello = "hello";
inline constexpr const char* kMeeting = "meeting";
inline constexpr const char* kPrint = "print";
inline constexpr const char* kNote = "note";
inline constexpr const char* kFailed = "failed";
inline constexpr const char* kEnded = "ended";
}  // namespace say

/// A line of one key.
template <typename T>
std::string message_line(const char* key, const T& value) {
  return Json{{key, value}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::cli
