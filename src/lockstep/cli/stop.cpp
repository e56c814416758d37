#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/state.h"
#include "lockstep/sweep/fetched_sweep.h"

namespace lockstep::cli {
namespace {

using record::Request;
using record::RequestKind;
using record::RunState;

constexpr auto kLookInterval = std::chrono::milliseconds(200);

struct StopChoice {
  bool finish = false;
  bool checkpoint = false;
  int64_t report = 0;
  bool wait = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Request (default: end now with a checkpoint, from which lockstep train --resume continues)");
    field("finish", self.finish, "end after the step under way, and write the weights");
    field("checkpoint", self.checkpoint, "save a checkpoint now, and go on");
    field("report", self.report, "log every N-th step from now on, and go on; 0: do not ask for it",
          between(0, 1'000'000));
    field("Waiting");
    field("wait", self.wait, "wait until the run has ended, or has answered, and say how");
  };
};

Request request_of(const StopChoice& choice) {
  if (static_cast<int>(choice.finish) + static_cast<int>(choice.checkpoint) +
          static_cast<int>(choice.report > 0) >
      1)
    throw Error(ErrorCode::invalid_option, "--finish, --checkpoint and --report are different requests",
                "use one of them");
  Request request{.from = {}};
  if (choice.finish) request.request = RequestKind::finish;
  if (choice.checkpoint) request.request = RequestKind::checkpoint;
  if (choice.report > 0) {
    request.request = RequestKind::report;
    request.every = choice.report;
  }
  return request;
}

std::string asked_text(const Request& request) {
  switch (request.request) {
    case RequestKind::stop:
      return "asked to stop with a checkpoint";
    case RequestKind::finish:
      return "asked to end after this step and write its weights";
    case RequestKind::checkpoint:
      return "asked to save a checkpoint";
    case RequestKind::report:
      return "asked to log every " + (request.every == 1 ? "step" : with_commas(request.every) + " steps");
  }
  return "";
}

bool ends_run(const Request& request) {
  return request.request == RequestKind::stop || request.request == RequestKind::finish;
}

std::string state_text(const record::StateOfRun& found) {
  return std::string(enum_names(found.state)[static_cast<size_t>(found.state)]) +
         (found.reason.empty() ? "" : ": " + found.reason) +
         (found.step >= 0 ? ", after step " + with_commas(found.step) : "");
}

struct AskedRun {
  std::string folder;
  std::string id;                              // of the request
  std::optional<record::Follower> follower{};  // if an answer is waited for
  bool is_done = false;
};

// Makes the request, if there is somebody who reads it.
std::optional<AskedRun> ask(const std::string& folder, const Request& request, bool wait, Console& console) {
  const auto say = [&](const std::string& text) { console.note(printable(folder + ": " + text) + "\n"); };
  const record::StateOfRun found = record::state_of(folder);
  const bool goes_on = found.state == RunState::running || found.state == RunState::stopping;
  if (!goes_on) {
    say(state_text(found));
    return std::nullopt;
  }
  if (!record::read_status(folder)) {
    say("its program does not read requests" + (found.host.empty() ? "" : "; it runs on " + found.host));
    console.note("  hint: press Ctrl-C where it runs, or send its process SIGINT\n");
    return std::nullopt;
  }
  AskedRun run{.folder = folder, .id = {}};
  if (wait && !ends_run(request)) {
    run.follower.emplace(folder);
    run.follower->poll([](const record::Event&) {});
  }
  run.id = record::make_request(folder, request);
  if (!wait) console.print(printable(folder + ": " + asked_text(request)) + "\n");
  return run;
}

// The run's own words, once it has said them.
std::optional<std::string> answer_of(AskedRun& run) {
  std::optional<std::string> answer;
  run.follower->poll([&](const record::Event& event) {
    if (event.kind == record::Answer::kind && record::text(event, "id") == run.id)
      answer = record::text(event, "answer", "done");
  });
  return answer;
}

bool is_over(RunState state) { return is_final(state) || state == RunState::lost; }

// Waits for all runs; returns the number of those that did not do what was asked.
class StopWait {
 public:
  StopWait(std::vector<AskedRun>& runs, Console& console) : runs_(runs), console_(console) {}

  int until_done(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested() && look() > 0)
      never.wait_for(lock, stop, kLookInterval, [] { return false; });
    return failed_;
  }

 private:
  // Returns how many runs are waited for.
  int look() {
    int waiting = 0;
    for (AskedRun& run : runs_) {
      if (!run.is_done) look_at(run);
      if (!run.is_done) ++waiting;
    }
    return waiting;
  }

  void look_at(AskedRun& run) {
    if (run.follower) {
      if (const auto answer = answer_of(run)) return finish(run, *answer);
    }
    const record::StateOfRun found = record::state_of(run.folder);
    if (!is_over(found.state)) return;
    if (run.follower || (found.state != RunState::stopped && found.state != RunState::ended)) ++failed_;
    finish(run, state_text(found));
  }

  void finish(AskedRun& run, const std::string& text) {
    run.is_done = true;
    console_.print(printable(run.folder + ": " + text) + "\n");
  }

  std::vector<AskedRun>& runs_;
  Console& console_;
  int failed_ = 0;
};

// A run in trials/0007 of a copy of a sweep: its trials are not trained here.
void check_is_in_no_copy(const std::string& run) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::canonical(run, none);
  if (folder.parent_path().filename() != "trials") return;
  const auto trial = parse_number<int64_t>(folder.filename().string());
  sweep::check_is_no_copy({folder.parent_path().parent_path()},
                          "stop SWEEP" + (trial ? " " + std::to_string(*trial) : ""));
}

}  // namespace

std::vector<FieldInfo> stop_fields() { return fields_of<StopChoice>(); }

int run_stop(const Call& call, Console& console) {
  const auto choice = settings_of<StopChoice>(call);
  const Request request = request_of(choice);
  for (const std::string& folder : call.words) {
    record::state_of(folder);  // all are runs
    check_is_in_no_copy(folder);
  }
  std::vector<AskedRun> asked;
  for (const std::string& folder : call.words) {
    if (auto run = ask(folder, request, choice.wait, console)) asked.push_back(std::move(*run));
  }
  const int unasked = static_cast<int>(call.words.size() - asked.size());
  if (!choice.wait) return unasked > 0 ? 1 : 0;
  launch::StopSignals signals("the runs were asked; not waiting any longer");
  const int failed = StopWait(asked, console).until_done(signals.token());
  if (signals.signal() != 0) return launch::kSignalStatus + signals.signal();
  return unasked + failed > 0 ? 1 : 0;
}

}  // namespace lockstep::cli
