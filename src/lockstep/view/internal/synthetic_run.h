// The events of an invented run, for tests of views.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::view {

struct SyntheticRun {
  int64_t epochs = 8;
  int64_t steps_per_epoch = 71;
  bool validate = true;
  bool end = true;
};

/// All events in order, from the environment to the end; a pure function of its argument.
inline std::vector<record::Event> synthetic_events(const SyntheticRun& run = {}) {
  std::vector<record::Event> events;
  double time = 1.7e9;
  const auto say = [&](int64_t epoch, int64_t step, const char* kind, Json values) {
    events.push_back({.time = time,
                      .sequence = static_cast<int64_t>(events.size()),
                      .epoch = epoch,
                      .step = step,
                      .kind = kind,
                      .values = std::move(values)});
  };
  std::mt19937 random(7);
  std::normal_distribution<double> noise;
  const int64_t total = run.epochs * run.steps_per_epoch;
  say(0, 0, "environment", {{"hostname", "invented"}});
  say(0, 0, "plan",
      {{"network", "digits_cnn"},
       {"data", "data/digits-png"},
       {"train_count", 9000},
       {"height", 28},
       {"width", 28},
       {"workers", 2},
       {"shards", 8},
       {"steps_per_epoch", run.steps_per_epoch},
       {"max_epochs", run.epochs}});
  double best = 0;
  for (int64_t step = 1; step <= total; ++step) {
    const double progress = static_cast<double>(step) / static_cast<double>(total);
    const int64_t epoch = (step - 1) / run.steps_per_epoch + 1;
    const double error = std::exp(-9 * progress) * 0.9 + 0.012;
    const double loss = std::max(0.002, 2.5 * error * (1 + 0.25 * noise(random)));
    const double accuracy = std::clamp(1 - error + 0.02 * noise(random), 0.0, 1.0);
    time += 0.0376;
    say(epoch, step, "step",
        {{"loss", loss},
         {"accuracy", accuracy},
         {"learning_rate", 0.005 * (1 + std::cos(progress * 3.14159))},
         {"samples", 128},
         {"images_per_second", 3402 + 40 * noise(random)},
         {"seconds_left", static_cast<double>(total - step) * 0.0376},
         {"queue_seconds", 0.0001},
         {"forward_seconds", 0.0121},
         {"backward_seconds", 0.0214},
         {"exchange_seconds", 0.0021},
         {"hidden_exchange_seconds", 0.0007},
         {"update_seconds", 0.0009},
         {"checkpoint_seconds", step % 100 == 0 ? 0.004 : 0.0}});
    if (step == 1) say(epoch, step, "first_step", {{"seconds", 0.412}});
    if (step == 100)
      say(epoch, step, "message",
          {{"text", "skipped 1 of 10,000 samples: \"digits/3/0017.png\""}, {"level", "warning"}});
    if (run.validate && step % run.steps_per_epoch == 0) {
      const double held_out = 1 - error * 1.15 - 0.003 * std::abs(noise(random));
      say(epoch, step, "validation",
          {{"loss", 2.6 * error},
           {"accuracy", held_out},
           {"samples", 1000},
           {"best", held_out > best},
           {"images_per_second", 9000.0}});
      best = std::max(best, held_out);
    }
  }
  if (run.end) {
    say(run.epochs, total, "end",
        {{"reason", "finished"},
         {"accuracy", 0.986},
         {"loss", 0.05},
         {"seconds", 21.3},
         {"images_per_second", 3402.0},
         {"samples", total * 128},
         {"weights_path", "runs/digits-001/model.safetensors"}});
  }
  return events;
}

}  // namespace lockstep::view
