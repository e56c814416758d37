// One run in a few values, for lists of runs. Read from the run's files alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/record/status_file.h"

namespace lockstep::record {

struct RunSummary {
  std::string folder;
  std::optional<RunState> state;
  std::string reason;
  std::string hint;
  std::string network;
  std::string data;
  std::optional<double> accuracy;
  std::optional<double> best_accuracy;
  std::optional<int64_t> best_step;
  std::optional<double> test_accuracy;
  std::optional<double> validation_loss;
  std::optional<double> loss;
  std::optional<int64_t> step;
  std::optional<int64_t> total_steps;
  int64_t epoch = 0;
  std::optional<double> seconds;
  std::optional<double> started;
  std::optional<double> last_sign;
  int64_t bytes = 0;
  std::string host;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "the run folder");
    field("state", self.state, "absent if the files of the run cannot be read");
    field("reason", self.reason, "why it ended, stopped, failed or is lost");
    field("hint", self.hint, "what the user can do");
    field("network", self.network, "");
    field("data", self.data, "the training data");
    field("accuracy", self.accuracy, "of the last validation");
    field("best_accuracy", self.best_accuracy, "of all validations");
    field("best_step", self.best_step, "its step");
    field("test_accuracy", self.test_accuracy, "on the test data");
    field("validation_loss", self.validation_loss, "of the last validation");
    field("loss", self.loss, "of the last logged step");
    field("step", self.step, "optimizer steps done");
    field("total_steps", self.total_steps, "planned");
    field("epoch", self.epoch, "counts from 1");
    field("seconds", self.seconds,
          "of training, all attempts; until it has ended, of what is logged of its newest attempt");
    field("started", self.started, "of its first attempt, seconds since 1970");
    field("last_sign", self.last_sign, "when it ended or last wrote, seconds since 1970");
    field("bytes", self.bytes, "of all its files");
    field("host", self.host, "the machine that writes it");
  };
};

/// Whether this is the folder of a run and nothing else: it has an event log, a status, or what a run writes
/// before its first event. Other programs too have files with names such as options.json.
bool is_run_folder(const std::filesystem::path& folder);

/// Does not throw for damaged files: the state is then absent, and the reason says what is damaged. Without
/// `bytes`.
RunSummary summary_of(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
