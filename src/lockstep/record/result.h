// RUN/result.json: what a run that has ended came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/describe.h"

namespace lockstep::record {

struct Result {
  std::string reason{};
  int64_t steps = 0;
  int64_t epochs = 0;
  double seconds = 0;
  std::optional<double> images_per_second{};
  std::optional<double> accuracy{};
  std::optional<double> loss{};
  std::optional<double> best_accuracy{};
  std::optional<int64_t> best_step{};
  std::optional<double> test_accuracy{};
  std::optional<double> test_loss{};
  std::string weights{};
  std::string weights_hash{};
  double started = 0;
  double ended = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("reason", self.reason, "why it ended");
    field("steps", self.steps, "optimizer steps, all attempts");
    field("epochs", self.epochs, "");
    field("seconds", self.seconds, "of training, all attempts");
    field("images_per_second", self.images_per_second, "of the last attempt, without its first step");
    field("accuracy", self.accuracy, "of the last validation");
    field("loss", self.loss, "of the last validation");
    field("best_accuracy", self.best_accuracy, "of all validations");
    field("best_step", self.best_step, "its step");
    field("test_accuracy", self.test_accuracy, "on the test data");
    field("test_loss", self.test_loss, "on the test data");
    field("weights", self.weights, "the file of weights; empty after a stop");
    field("weights_hash", self.weights_hash, "XXH3 of the weights and statistics, as in the event `hash`");
    field("started", self.started, "of the last attempt, seconds since 1970");
    field("ended", self.ended, "seconds since 1970");
  };
};

void write_result(const std::filesystem::path& run_folder, const Result& result);

/// Nothing without such a file, or if it is damaged.
std::optional<Result> read_result(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
