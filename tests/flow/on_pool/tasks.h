// The tasks of the tests of training on pools, and what their tests share. The program is its own worker, so
// main.cpp lists every task.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/nn/layers.h"
#include "lockstep/pool/run.h"
#include "lockstep/train/custom/trained_network.h"
#include "lockstep/train/tasks/on_pool.h"
#include "lockstep/train/tasks/run.h"

#include "samples.h"

namespace lockstep {

// main.cpp sets it; the tests open their pools in it.
extern pool::Session* session;

struct Trial {
  std::string output{};
  int64_t seed = 0;
  int64_t epochs = 2;
  std::string execution = "auto";
  int64_t shards = 8;  ///< of a custom loop, as the next
  double clip = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("output", self.output, "");
    field("seed", self.seed, "");
    field("epochs", self.epochs, "");
    field("execution", self.execution, "");
    field("shards", self.shards, "");
    field("clip", self.clip, "");
  };
};

struct Outcome {
  std::string reason{};
  int64_t workers = 0;
  train::TrainedNetwork network{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("reason", self.reason, "");
    field("workers", self.workers, "");
    field("network", self.network, "");
  };
};

inline train::Options options_of(const Trial& trial) {
  train::Options options{.mini_batch_size = 16,
                         .max_epochs = trial.epochs,
                         .patience = 0,
                         .learning_rate = 0.05,
                         .seed = trial.seed,
                         .output = trial.output};
  set_field(options, "execution", trial.execution);
  return options;
}

inline int64_t workers_of(const std::filesystem::path& run) {
  return Json::parse(read_file(run / "options.json", 1 << 24))
      .at("plan")
      .at("machine")
      .at("workers")
      .get<int64_t>();
}

struct Scores {
  int64_t count = 0;
  int64_t hash = 0;
  std::string way{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("count", self.count, "");
    field("hash", self.hash, "");
    field("way", self.way, "");
  };
};

inline Scores scores_of(const std::vector<train::Prediction>& predictions) {
  std::vector<double> all;
  for (const train::Prediction& one : predictions)
    all.insert(all.end(), one.scores.begin(), one.scores.end());
  return {static_cast<int64_t>(predictions.size()),
          static_cast<int64_t>(hash_of(std::as_bytes(std::span(all)))),
          {}};
}

// What a custom loop returns to the client.
struct ByHand {
  int64_t hash = 0;
  double accuracy = 0;
  train::TrainedNetwork network{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("hash", self.hash, "");
    field("accuracy", self.accuracy, "");
    field("network", self.network, "");
  };
};

inline Error error_from(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

// All that a trained network is asked for: its weights, and the bits of its outputs for samples that it has
// not seen.
struct Answers {
  std::string weights{};
  int64_t scores = 0;
  double loss = 0;
  double accuracy = 0;
  int64_t outputs = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("weights", self.weights, "");
    field("scores", self.scores, "");
    field("loss", self.loss, "");
    field("accuracy", self.accuracy, "");
    field("outputs", self.outputs, "");
  };
  friend bool operator==(const Answers&, const Answers&) = default;
  friend void PrintTo(const Answers& answers, std::ostream* out) {
    *out << lockstep::to_json(answers).dump();
  }
};

Outcome train_once(pool::Worker& worker, const Trial& trial);
void train_shown(pool::Worker& worker, const Trial& trial);
Scores predict_once(pool::Worker& worker, const Trial& trial);
Scores train_by_hand(pool::Worker& worker, const Trial& trial);
ByHand train_and_return(pool::Worker& worker, const Trial& trial);
Answers ask_here(pool::Worker& worker, const Trial& trial);
inline pool::WorkerInfo tell_info(pool::Worker& worker) { return worker.info(); }
inline constexpr auto train_task = pool::task<train_once>("train_once");
inline constexpr auto shown_task = pool::task<train_shown>("train_shown");
inline constexpr auto predict_task = pool::task<predict_once>("predict_once");
inline constexpr auto by_hand_task = pool::task<train_by_hand>("train_by_hand");
inline constexpr auto return_task = pool::task<train_and_return>("train_and_return");
inline constexpr auto ask_task = pool::task<ask_here>("ask_here");
inline constexpr auto info_task = pool::task<tell_info>("tell_info");
inline constexpr auto plain_net_task = train::network_task<make_plain_net>("plain_net");

class FitOnPool : public testing::Test {
 protected:
  void TearDown() override { session->close_pool(); }
  Trial trial(const std::string& run, int64_t seed = 0) const {
    return {.output = (folder_ / run).string(), .seed = seed};
  }
  std::string weights(const std::string& run) const {
    return read_file(folder_ / run / "model.safetensors", 1 << 24);
  }
  pool::Pool open(pool::PoolKind kind, int64_t workers) const {
    return session->open_pool({.kind = kind, .workers = workers, .quiet = true});
  }
  void train_alone(const std::string& run, int64_t seed = 0) const {
    train::fit(nn::find_network("mlp"), corners(64), options_of(trial(run, seed)));
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& folder_ = temporary_.path();
};

}  // namespace lockstep
