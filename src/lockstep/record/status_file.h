// RUN/status.json: what the process that writes a run says of it, every few seconds. The file has one size
// from the start and is written in place, so that the last word can be said when the disk is full.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/describe.h"
#include "lockstep/base/descriptor.h"
#include "lockstep/record/process_identity.h"

namespace lockstep::record {

/// What the writer of a run is doing. `lost` is never written: a reader finds it (state_of).
enum class RunState { queued, running, stopping, stopped, ended, failed, lost };
constexpr std::array<const char*, 7> enum_names(RunState) {
  return {"queued", "running", "stopping", "stopped", "ended", "failed", "lost"};
}

/// The writer's last words follow from it: nothing more is written.
constexpr bool is_final(RunState state) {
  return state == RunState::stopped || state == RunState::ended || state == RunState::failed;
}

/// The content of the file.
struct Status {
  RunState state = RunState::running;
  std::string reason{};  ///< why it ended, stopped or failed, or what it waits for
  std::string hint{};
  int64_t attempt = 0;
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t total_steps = 0;  ///< 0: not known
  std::optional<double> best_accuracy{};
  std::optional<int64_t> best_step{};
  double started = 0;  ///< of this attempt, seconds since 1970
  double written = 0;  ///< by the writer's clock
  ProcessIdentity writer{};
  std::string memory_kills_file{};  ///< where the kernel counts what it killed in the writer's cgroup
  int64_t memory_kills = 0;         ///< when the attempt began
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("state", self.state, "queued, running, stopping, stopped, ended or failed");
    field("reason", self.reason, "why it ended, stopped or failed");
    field("hint", self.hint, "what the user can do");
    field("attempt", self.attempt, "0 for the first start, one more for each resume");
    field("step", self.step, "optimizer steps done");
    field("epoch", self.epoch, "counts from 1");
    field("total_steps", self.total_steps, "0: not known");
    field("best_accuracy", self.best_accuracy, "of all validations");
    field("best_step", self.best_step, "its step");
    field("started", self.started, "of this attempt, seconds since 1970");
    field("written", self.written, "seconds since 1970, by the writer's clock");
    field("writer", self.writer, "the process");
    field("memory_kills_file", self.memory_kills_file, "where the kernel counts killed processes");
    field("memory_kills", self.memory_kills, "when the attempt began");
  };
};

/// Writes the file when something changes and every three seconds, on a thread of its own. Any thread may
/// call its functions. What cannot be written is dropped: the event log reports a bad disk.
class StatusWriter {
 public:
  /// Reserves the file's space. `status` is completed with the writer and the times.
  StatusWriter(const std::filesystem::path& run_folder, Status status);
  /// Without a final state until then, writes `failed`.
  ~StatusWriter();
  StatusWriter(const StatusWriter&) = delete;
  StatusWriter& operator=(const StatusWriter&) = delete;

  /// For the next writing. A step before the last one is left out, because threads that save say theirs late.
  void set_step(int64_t step, int64_t epoch);
  /// For the next writing. 0: not known.
  void set_total_steps(int64_t total_steps);
  /// For the next writing. The best validation so far.
  void set_best(double accuracy, int64_t step);
  /// For the next writing. The run begins again, at step 0 and without a best validation.
  void begin_again();
  /// At once. Nothing is written after a final state.
  void set_state(RunState state, const std::string& reason, const std::string& hint = {});
  /// The last word: what the file said before this writer, or no file if there was none. For an attempt that
  /// has changed nothing.
  void restore(const std::optional<Status>& earlier);

 private:
  void work(const std::stop_token& stop);
  void write_now();
  bool has_ended();

  std::mutex writing_;
  std::mutex mutex_;  // of the next two, for moments only
  Status status_;
  bool has_ended_ = false;
  bool is_on_network_ = false;  // the server sees a writing after a sync
  std::unique_ptr<OpenFile> file_;
  std::jthread thread_;
};

/// The file's content; nothing without such a file, or if it is damaged. Throws io if the caller may not read
/// it.
std::optional<Status> read_status(const std::filesystem::path& run_folder);

/// Puts a folder's status there in one writing, for a run that no process works on (queued).
void write_status(const std::filesystem::path& run_folder, const Status& status);

}  // namespace lockstep::record
