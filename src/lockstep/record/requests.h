// What others ask of a run: files in RUN/requests/, which the run reads between steps, answers in its log and
// removes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "lockstep/base/describe.h"

namespace lockstep::record {

enum class RequestKind {
  stop,        ///< end now with a checkpoint, as Ctrl-C does
  finish,      ///< end after this step and write the weights
  checkpoint,  ///< save a checkpoint after this step
  report       ///< log every `every`-th step
};
constexpr std::array<const char*, 4> enum_names(RequestKind) {
  return {"stop", "finish", "checkpoint", "report"};
}

struct Request {
  RequestKind request = RequestKind::stop;
  int64_t every = 1;
  std::string from{};
  std::string id{};  ///< the file's name without its ending
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("request", self.request, "stop, finish, checkpoint or report");
    field("every", self.every, "steps between two logged steps, for report", between(1, 1'000'000));
    field("from", self.from, "who asks: user@host");
    field("id", self.id, "");
  };
};

/// Puts a request into the run's folder, and returns its id. Throws io if the caller may not write there.
std::string make_request(const std::filesystem::path& run_folder, Request request);

/// Whether the run has taken this request from its folder.
bool is_taken(const std::filesystem::path& run_folder, const std::string& id);

/// Whether the run was asked to stop or finish by a request that it has not taken. What RequestWatch refuses
/// does not count.
bool is_end_asked(const std::filesystem::path& run_folder);

/// Looks for requests every tenth of a second, on a thread of its own, and whether the run's folder is there.
class RequestWatch {
 public:
  /// Called on the watch's thread with each request. Requests of users who own neither the folder nor this
  /// process are refused: `refuse` is called with a reason instead.
  using Take = std::function<void(const Request&)>;
  using Refuse = std::function<void(const std::string& reason)>;
  /// Called once, when somebody has removed the folder or given it another name.
  using Gone = std::function<void()>;

  /// Removes the requests that are there: they were meant for an earlier attempt. New ones wait for begin().
  explicit RequestWatch(const std::filesystem::path& run_folder);
  /// Once. Starts the thread.
  void begin(Take take, Refuse refuse, Gone gone = {});

 private:
  void look();
  bool is_answered(int descriptor, const std::filesystem::path& path);
  void work(const std::stop_token& stop);

  std::filesystem::path run_folder_;
  std::filesystem::path folder_;
  std::map<std::filesystem::path, int> looks_;     // at files that are no requests, so far
  std::set<std::filesystem::path> not_removable_;  // answered once
  Take take_;
  Refuse refuse_;
  Gone gone_;
  std::jthread thread_;
};

}  // namespace lockstep::record
