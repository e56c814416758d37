// fit, predict and loops of one's own on pools: by a session, and in tasks of threads and processes. This
// program is its own worker, so main is at the end.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/base/host.h"
#include "lockstep/data/image_share.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/gpus.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/pool/run.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/validate.h"
#include "lockstep/train/inference/layer_outputs.h"
#include "lockstep/train/tasks/on_pool.h"
#include "lockstep/train/tasks/run.h"
#include "lockstep/train/custom/trained_network.h"
#include "lockstep/train/tasks/trial_progress.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

pool::Session* session = nullptr;

// A bright corner says which of four classes an image is.
class Corners : public data::Datastore {
 public:
  explicit Corners(int64_t count) : count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 4; }
  std::string source(int64_t index) const override { return "corner " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 8, 8}; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    ++reads;
    const auto pixels = sink({1, 8, 8});
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<uint8_t>((static_cast<size_t>(index) * 31 + i * 7) % 90);
    const size_t first = (index % 2 == 1 ? 4U : 0U) + (index % 4 >= 2 ? 32U : 0U);
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 4; ++column) pixels[first + row * 8 + column] = 255;
    }
  }
  uint64_t listing_hash() const override { return static_cast<uint64_t>(count_); }
  std::string identity() const override { return "corners " + std::to_string(count_); }
  static std::atomic<int64_t> reads;

 private:
  int64_t count_;
  std::vector<std::string> classes_{"a", "b", "c", "d"};
};
std::atomic<int64_t> Corners::reads = 0;

data::Dataset corners(int64_t count) { return data::Dataset(std::make_shared<Corners>(count)); }

// Loses its head over one image, the tenth.
struct BrokenNetImpl : torch::nn::Module {
  explicit BrokenNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor pixels = x.flatten(1);
    const torch::Tensor tenth = (pixels.select(1, 63) * 255 - 31).abs() < 0.5;
    return head(pixels).masked_fill(tenth.unsqueeze(1), std::numeric_limits<double>::quiet_NaN());
  }
  torch::nn::Linear head;
};
TORCH_MODULE(BrokenNet);
BrokenNet make_broken_net(const nn::NetworkInput& input) { return BrokenNet(input); }

// As a user writes it, without a graph that could travel.
struct PlainNetImpl : torch::nn::Module {
  explicit PlainNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(x.flatten(1)); }
  torch::nn::Linear head;
};
TORCH_MODULE(PlainNet);
PlainNet make_plain_net(const nn::NetworkInput& input) { return PlainNet(input); }

// Series of 3 to 8 time steps, of which the class is in the level.
data::Dataset series(int64_t count) {
  std::vector<data::Sequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    data::Sequence& one = sequences.emplace_back();
    one.label = i % 2;
    for (int64_t step = 0; step < 2 * (3 + i % 6); ++step)
      one.values.push_back(static_cast<float>((i % 2) * 2 - 1) +
                           0.1F * static_cast<float>((i * 7 + step * 3) % 5));
  }
  return data::make_sequences(2, {"low", "high"}, std::move(sequences));
}

struct Trial {
  std::string output{};
  int64_t seed = 0;
  int64_t epochs = 2;
  std::string execution = "auto";
  int64_t shards = 8;  ///< of a loop of one's own, as the next
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

train::Options options_of(const Trial& trial) {
  train::Options options{.mini_batch_size = 16,
                         .max_epochs = trial.epochs,
                         .patience = 0,
                         .learning_rate = 0.05,
                         .seed = trial.seed,
                         .output = trial.output};
  set_field(options, "execution", trial.execution);
  return options;
}

int64_t workers_of(const std::filesystem::path& run) {
  return Json::parse(read_file(run / "options.json", 1 << 24))
      .at("plan")
      .at("machine")
      .at("workers")
      .get<int64_t>();
}

Outcome train_once(pool::Worker&, const Trial& trial) {
  const train::Result result = train::fit(nn::find_network("mlp"), corners(64), options_of(trial));
  Outcome outcome{.reason = enum_names(result.reason)[static_cast<size_t>(result.reason)],
                  .workers = workers_of(result.output),
                  .network = {}};
  if (result.reason != train::EndReason::stopped) outcome.network = trained_network(result);
  return outcome;
}

void train_shown(pool::Worker& worker, const Trial& trial) {
  train::TrainingRequest request;
  request.dataset = corners(64);
  request.network = nn::find_network("mlp");
  request.listener = train::tell_client(worker, "seed " + std::to_string(trial.seed));
  train::fit(request, options_of(trial));
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

Scores scores_of(const std::vector<train::Prediction>& predictions) {
  std::vector<double> all;
  for (const train::Prediction& one : predictions)
    all.insert(all.end(), one.scores.begin(), one.scores.end());
  return {static_cast<int64_t>(predictions.size()),
          static_cast<int64_t>(hash_of(std::as_bytes(std::span(all)))),
          {}};
}

Scores predict_once(pool::Worker&, const Trial& trial) {
  return scores_of(train::predict(train::model_of_run(trial.output), corners(41), {.mini_batch_size = 16}));
}

// A loop of one's own: its steps, the weights, and what hidden_state the gradients.
Scores train_by_hand(pool::Worker& worker, const Trial& trial) {
  const train::BuiltModel model =
      train::build(worker, nn::find_network("mlp"), corners(64), {.seed = trial.seed});
  train::Sgdm sgdm(model.parameters());
  const auto loss = [&](const data::Shard& shard) {
    return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
  };
  for (const auto& batch :
       data::MiniBatchQueue(corners(64), worker.share(),
                            {.mini_batch_size = 16, .shards = trial.shards, .epochs = trial.epochs})) {
    auto gradients = train::exchange(worker, train::loss_and_gradients(model, batch, loss)).gradients;
    if (trial.clip > 0) train::clip_gradients(model, gradients, trial.clip);
    sgdm.step(gradients);
  }
  return {sgdm.steps(), static_cast<int64_t>(model.hash()), worker.comm().way()};
}

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

// The same for samples of a sort, with its network given back.
ByHand train_and_return(pool::Worker& worker, const Trial& trial) {
  const bool sequences = trial.output == "sequences";
  const data::Dataset samples = sequences ? series(64) : corners(64);
  const nn::Network network = trial.output == "module"
                                  ? nn::network<make_plain_net>("plain_net")
                                  : nn::find_network(sequences ? "lstm_classifier" : "mlp");
  const std::vector<double> mean(static_cast<size_t>(sequences ? 2 : 1), 0.25), deviation(mean.size(), 0.5);
  const train::BuiltModel model = train::build(worker, network, samples, {.seed = trial.seed});
  train::Sgdm sgdm(model.parameters());
  const auto loss = [&](const data::Shard& shard) {
    return nn::cross_entropy_sum(model.forward(shard), shard.target);
  };
  for (const auto& batch : data::MiniBatchQueue(samples, worker.share(),
                                                {.mini_batch_size = 16,
                                                .epochs = trial.epochs,
                                                .output = {.mean = mean, .deviation = deviation}})) {
    sgdm.step(train::exchange(worker, train::loss_and_gradients(model, batch, loss)).gradients);
  }
  const double accuracy = train::accuracy(model, sequences ? series(41) : corners(41), worker.comm(),
                                          {.mean = mean, .deviation = deviation});
  ByHand made{static_cast<int64_t>(model.hash()), accuracy,
              train::trained_network(model, {.mean = mean, .deviation = deviation})};
  model.parameters().front().detach().zero_();  // of what was returned nothing is touched
  return made;
}

pool::WorkerInfo tell_info(pool::Worker& worker) { return worker.info(); }
constexpr auto info_task = pool::task<tell_info>("tell_info");
constexpr auto return_task = pool::task<train_and_return>("train_and_return");
constexpr auto plain_net_task = train::network_task<make_plain_net>("plain_net");
constexpr auto by_hand_task = pool::task<train_by_hand>("train_by_hand");
constexpr auto predict_task = pool::task<predict_once>("predict_once");
constexpr auto shown_task = pool::task<train_shown>("train_shown");
constexpr auto train_task = pool::task<train_once>("train_once");

Error error_from(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

// All that a trained network is asked for: its weights, and what they give for samples that it has not seen,
// by bits.
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

int64_t hash_of_tensor(const at::Tensor& tensor) {
  return static_cast<int64_t>(
      hash_of(std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes())));
}

struct Asked {
  const char* name;
  const char* network;
  const char* layer;
  data::Dataset (*samples)(int64_t count);
};
const Asked kImages{"images", "mlp", "2", corners};
const Asked kSequences{"sequences", "lstm_classifier", "lstm", series};

// Where: nothing for the calling thread, which may be one of a task; else the session.
template <class... Where>
Answers ask_for_all(const Asked& asked, const Trial& trial, Where&... where) {
  train::fit(where..., nn::find_network(asked.network), asked.samples(64), options_of(trial));
  const train::Model model = train::model_of_run(trial.output);
  train::Options options{.mini_batch_size = 16};
  set_field(options, "execution", trial.execution);
  const data::Dataset samples = asked.samples(41);
  const auto predictions = train::predict(where..., model, samples, options);
  const train::Evaluation evaluation = train::evaluate(predictions, model.classes);
  return {.weights =
              as_hex(hash_of(read_file(std::filesystem::path(trial.output) / "model.safetensors", 1 << 24))),
          .scores = scores_of(predictions).hash,
          .loss = evaluation.loss,
          .accuracy = evaluation.accuracy,
          .outputs = hash_of_tensor(train::layer_outputs(where..., model, asked.layer, samples, options))};
}

Answers ask_here(pool::Worker&, const Trial& trial) {
  return ask_for_all(trial.output.ends_with(kSequences.name) ? kSequences : kImages, trial);
}
constexpr auto ask_task = pool::task<ask_here>("ask_here");

// One row of the table: on a pool of this kind, or on the launcher's ranks.
struct Place {
  const char* name;
  std::vector<Answers> (*ask)(const pool::Pool& pool, const Asked& asked, Trial trial);
};

const std::vector<Place> kPlaces{
    {"the session",
     [](const pool::Pool&, const Asked& asked, Trial trial) {
       trial.execution = "parallel";
       return std::vector{ask_for_all(asked, trial, *session)};
     }},
    {"spmd", [](const pool::Pool& pool, const Asked&, Trial trial) { return pool.spmd(ask_task, trial); }},
    {"parfor", [](const pool::Pool& pool, const Asked&,
                  Trial trial) { return pool.parfor(ask_task, std::vector<Trial>{trial}); }},
    {"parfeval on two",
     [](const pool::Pool& pool, const Asked&, Trial trial) {
       return std::vector{pool.parfeval(ask_task, trial, {.workers = 2}).get()};
     }},
};

bool launched() { return std::getenv("WORLD_SIZE") != nullptr; }

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

TEST_F(FitOnPool, ParallelTakesAllWorkersOfTheOpenPool) {
  train_alone("alone");
  open(pool::PoolKind::threads, 3);
  Trial three = trial("three");
  three.execution = "parallel";
  const train::Result result = train::fit(*session, nn::find_network("mlp"), corners(64), options_of(three));
  EXPECT_EQ(result.reason, train::EndReason::finished);
  EXPECT_EQ(workers_of(folder_ / "three"), 3);
  EXPECT_EQ(session->current_pool()->size(), 3);
  EXPECT_EQ(weights("three"), weights("alone"));
}

TEST_F(FitOnPool, EveryPlaceGivesWhatOneProcessGives) {
  for (const Asked* asked : {&kImages, &kSequences}) {
    const std::string sort = asked->name;
    const Answers expected = ask_for_all(*asked, trial("alone-" + sort));
    for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
      const std::string kind_name = enum_names(kind)[static_cast<size_t>(kind)];
      const pool::Pool pool = open(kind, launched() ? 0 : 3);
      for (const Place& place : kPlaces) {
        SCOPED_TRACE(kind_name + ", " + place.name + ", " + sort);
        const auto answers = place.ask(pool, *asked, trial(kind_name + "-" + place.name + "-" + sort));
        EXPECT_FALSE(answers.empty());
        for (const Answers& one : answers) EXPECT_EQ(one, expected);
      }
    }
  }
}

TEST_F(FitOnPool, ProcessesTrainWhatTheClientOpenedAndWhatItWrote) {
  const auto options = [&](const std::string& run) {
    Trial parallel = trial(run);
    parallel.execution = "parallel";
    return options_of(parallel);
  };
  for (int64_t i = 0; i < 24; ++i) {
    const std::filesystem::path path =
        folder_ / "images" / (i % 2 == 0 ? "even" : "odd") / (std::to_string(i) + ".pgm");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "P5 8 8 255\n"
                        << std::string(64, static_cast<char>(i % 2 == 0 ? 20 + i : 220 - i));
  }
  const auto [images, held_out] = data::ImageFolder(folder_ / "images").split(0.75);
  train::TrainingRequest request;
  request.dataset = images;
  request.validation = held_out;
  request.network = nn::network<make_plain_net>("plain_net");
  const double alone = train::fit(request, options_of(trial("alone"))).accuracy;
  open(pool::PoolKind::processes, 2);
  EXPECT_EQ(train::fit(*session, request, options("together")).accuracy, alone);
  EXPECT_EQ(weights("together"), weights("alone"));
  // The same folder, named in the request; the network by its options.
  train::TrainingRequest named;
  named.folder = folder_ / "images";
  train::fit(named, options_of(trial("named-alone")));
  train::fit(*session, named, options("named"));
  EXPECT_EQ(weights("named"), weights("named-alone"));
  request.network = nn::network<make_broken_net>("nobody knows it");
  const Error error = error_from([&] { train::fit(*session, request, options("unknown")); });
  EXPECT_THAT(error.message(),
              HasSubstr("cannot make the network \"nobody knows it\", which is a C++ module"));
  EXPECT_THAT(error.hint(), HasSubstr("train::network_task<make>"));
}

TEST_F(FitOnPool, ProcessesAskTheClientsObserverAndTellItsListener) {
  const auto train_with_observer = [&](const std::string& run, const char* execution) {
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    std::vector<std::string> kinds;
    request.listener = [&](const io::Event& event) { kinds.push_back(event.kind); };
    request.observer = [&](const io::Event& event) {
      return event.kind == "step" && event.step == 3 ? io::Control::stop : io::Control::go;
    };
    Trial watched = trial(run);
    watched.execution = execution;
    const train::Result result = execution == std::string("parallel")
                                     ? train::fit(*session, request, options_of(watched))
                                     : train::fit(request, options_of(watched));
    EXPECT_EQ(result.reason, train::EndReason::observer);
    EXPECT_EQ(result.steps, 3);
    EXPECT_THAT(kinds, testing::Contains("end"));
  };
  train_with_observer("alone", "auto");
  open(pool::PoolKind::processes, 2);
  train_with_observer("together", "parallel");
  EXPECT_EQ(weights("together"), weights("alone"));
}

TEST_F(FitOnPool, TheClientsStopReachesProcesses) {
  open(pool::PoolKind::processes, 2);
  for (const bool is_stop : {true, false}) {
    std::stop_source source;
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    (is_stop ? request.stop : request.enough) = source.get_token();
    request.listener = [&](const io::Event& event) {
      if (event.kind == "first_step") source.request_stop();
    };
    Trial endless = trial(is_stop ? "stop" : "enough");
    endless.epochs = 1'000'000;
    endless.execution = "parallel";
    const train::Result result = train::fit(*session, request, options_of(endless));
    EXPECT_EQ(result.reason, is_stop ? train::EndReason::stopped : train::EndReason::observer);
    EXPECT_EQ(std::filesystem::exists(folder_ / (is_stop ? "stop" : "enough") / "model.safetensors"),
              !is_stop);
  }
}

TEST_F(FitOnPool, ParallelOpensTheDefaultPoolByItselfAndAutoOpensNone) {
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(trial("auto")));
  EXPECT_FALSE(session->current_pool().has_value());
  Trial parallel = trial("parallel");
  parallel.execution = "parallel";
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
  ASSERT_TRUE(session->current_pool().has_value());
  EXPECT_EQ(weights("parallel"), weights("auto"));
}

// Rank 0 waits for the observer's answers, which one that throws does not give.
TEST_F(FitOnPool, WhatAnObserverOrListenerThrowsEndsTheTraining) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    for (const bool observes : {true, false}) {
      const std::string run = enum_names(kind)[static_cast<size_t>(kind)] + std::string(observes ? "o" : "l");
      open(kind, 2);
      train::Options options = options_of(trial(run));
      options.execution = train::Execution::parallel;
      train::TrainingRequest request;
      request.dataset = corners(64);
      request.network = nn::find_network("mlp");
      if (observes) {
        request.observer = [](const io::Event&) -> io::Control {
          throw Error(ErrorCode::internal, "broken");
        };
      } else {
        request.listener = [](const io::Event&) { throw Error(ErrorCode::internal, "broken"); };
      }
      EXPECT_THAT(error_from([&] { train::fit(*session, request, options); }).message(), HasSubstr("broken"));
      session->close_pool();
    }
  }
}

TEST_F(FitOnPool, AnErrorOfTheTrainingIsTheClients) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("bad"));
  options.execution = train::Execution::parallel;
  options.image_size = "0x0";
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("--image-size"));
  options.workers = 5;
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("5 workers in a pool of 2"));
  session->close_pool();
  open(pool::PoolKind::processes, 2);
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("5 workers in a pool of 2"));
  options.workers = 0;
  EXPECT_THAT(
      error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(),
      HasSubstr("--image-size"));
}

TEST_F(FitOnPool, ALossThatIsNoNumberNamesItsShardAndRank) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("broken"));
  options.execution = train::Execution::parallel;
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.shards = 4;
  const Error error =
      error_from([&] { train::fit(*session, nn::network<make_broken_net>("broken"), corners(64), options); });
  // The second worker's, unless the first was done before and took it over.
  EXPECT_THAT(error.message(), MatchesRegex("the loss became NaN in step 1, in shard 2 of rank [01]"));
  EXPECT_THAT(error.hint(),
              AllOf(HasSubstr("the learning rate is not the cause"), HasSubstr("your own network")));
}

TEST_F(FitOnPool, PredictOnAPoolGivesWhatItGivesWithoutOne) {
  train_alone("alone");
  const train::Model model = train::model_of_run(folder_ / "alone");
  train::Options options{.execution = train::Execution::parallel, .mini_batch_size = 16};
  open(pool::PoolKind::threads, 3);
  const auto alone = train::predict(model, corners(40), options);
  const auto pooled = train::predict(*session, model, corners(40), options);
  ASSERT_EQ(pooled.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(pooled[i].scores, alone[i].scores);
}

TEST_F(FitOnPool, AGroupPredictsTogetherAndAllHaveAll) {
  train_alone("alone");
  const Scores alone =
      scores_of(train::predict(train::model_of_run(folder_ / "alone"), corners(41), {.mini_batch_size = 16}));
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const auto outcomes = open(kind, 3).spmd(predict_task, trial("alone"));
    ASSERT_EQ(outcomes.size(), 3U);
    for (const Scores& outcome : outcomes) {
      EXPECT_EQ(outcome.count, 41);
      EXPECT_EQ(outcome.hash, alone.hash);
    }
  }
}

TEST_F(FitOnPool, ATaskTakesOneWorkerAndReturnsItsNetwork) {
  train_alone("alone", 3);
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string run = enum_names(kind)[static_cast<size_t>(kind)];
    const Outcome outcome = open(kind, 2).parfeval(train_task, trial(run, 3)).get();
    EXPECT_EQ(outcome.reason, "finished");
    EXPECT_EQ(outcome.workers, 1);
    EXPECT_EQ(weights(run), weights("alone"));
    const auto here = train::predict(train::model_of(outcome.network), corners(40), {.mini_batch_size = 16});
    const auto there =
        train::predict(train::model_of_run(folder_ / "alone"), corners(40), {.mini_batch_size = 16});
    for (size_t i = 0; i < here.size(); ++i) EXPECT_EQ(here[i].scores, there[i].scores);
  }
}

TEST_F(FitOnPool, AGroupTrainsOnceTogether) {
  train_alone("alone");
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string run = enum_names(kind)[static_cast<size_t>(kind)];
    const auto outcomes = open(kind, 3).spmd(train_task, trial(run), {.workers = 2});
    ASSERT_EQ(outcomes.size(), 2U);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.workers, 2);
    EXPECT_EQ(weights(run), weights("alone"));
  }
}

TEST_F(FitOnPool, ALoopOfOnesOwnGivesTheSameWeightsOnEveryWorker) {
  const Scores expected = open(pool::PoolKind::threads, 1).spmd(by_hand_task, trial("")).front();
  EXPECT_EQ(expected.count, 8);
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const pool::Pool pool = open(kind, 2);
    for (const Scores& together : pool.spmd(by_hand_task, trial(""))) EXPECT_EQ(together.hash, expected.hash);
    for (const Scores& alone : pool.parfor(by_hand_task, {trial(""), trial("")}))
      EXPECT_EQ(alone.hash, expected.hash);
  }
}

TEST_F(FitOnPool, ALoopThatClipsHasTheWeightsOfFit) {
  Trial clipped = trial("clipped");
  clipped.clip = 0.2;
  train::Options options = options_of(clipped);
  options.gradient_clip = clipped.clip;
  options.learning_rate = train::SgdmOptions{}.learning_rate;
  options.lr_schedule = train::ScheduleKind::constant;
  options.weight_decay = options.validation_split = 0;
  options.shards = clipped.shards;
  const train::Result result = train::fit(nn::find_network("mlp"), corners(64), options);
  const pool::Pool pool = open(pool::PoolKind::threads, 2);
  const auto of_fit = pool.spmd([&](pool::Worker& worker) {
    const train::BuildOptions trained{.weights = result.weights};
    return static_cast<int64_t>(train::build(worker, nn::find_network("mlp"), corners(64), trained).hash());
  });
  EXPECT_EQ(pool.spmd(by_hand_task, clipped).front().hash, of_fit.front());
  EXPECT_NE(pool.spmd(by_hand_task, trial("")).front().hash, of_fit.front()) << "nothing was clipped";
}

// GPUs here are those of the test with stand-ins (gpus_test.py), or a machine's with three of them.
TEST_F(FitOnPool, ALoopOfOnesOwnSendsItsGradientsFromGpuToGpu) {
  Trial few = trial("");
  few.shards = 2;
  const Scores expected = open(pool::PoolKind::threads, 1).spmd(by_hand_task, few).front();
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    for (const Scores& one : open(kind, 3).spmd(by_hand_task, few)) {
      EXPECT_EQ(one.hash, expected.hash) << "one worker has no shard";
      const bool is_linked = one.way.ends_with(", and shared memory");
      const bool from_gpu_to_gpu = is_linked && !one.way.starts_with("a link between GPUs");
      EXPECT_EQ(from_gpu_to_gpu, device::inspect_gpus().gpus.size() >= 3) << one.way;
    }
  }
}

TEST_F(FitOnPool, WhatALoopOfOnesOwnHasTrainedPredictsAtTheClient) {
  for (const char* sort : {"images", "sequences", "module"}) {
    SCOPED_TRACE(sort);
    std::vector<Scores> all;
    for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
      for (const ByHand& made : open(kind, 2).spmd(return_task, {.output = sort})) {
        const train::Model model = train::model_of(
            made.network,
            sort == std::string("module") ? nn::network<make_plain_net>("plain_net") : nn::Network());
        const auto predictions = train::predict(
            model, sort == std::string("sequences") ? series(41) : corners(41), {.mini_batch_size = 16});
        EXPECT_EQ(train::evaluate(predictions, model.classes).accuracy, made.accuracy);
        all.push_back(scores_of(predictions));
      }
    }
    ASSERT_EQ(all.size(), 4U);
    for (const Scores& one : all) EXPECT_EQ(one.hash, all.front().hash);
  }
}

TEST_F(FitOnPool, ClientAndTasksAskWhereAWorkerIs) {
  const auto there = device::gpus();
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const pool::Pool pool = open(kind, 2);
    const auto told = pool.spmd(info_task);
    const auto known = pool.workers();
    for (size_t i = 0; i < 2; ++i) {
      const bool has_gpu = i < there.size();
      for (const pool::WorkerInfo& info : {told[i], known[i]}) {
        EXPECT_EQ(info.index, static_cast<int64_t>(i));
        EXPECT_EQ(info.process, known[i].process);
        EXPECT_EQ(info.process == ::getpid(), kind == pool::PoolKind::threads);
        EXPECT_EQ(info.host, host_name());
        EXPECT_EQ(info.gpu, has_gpu ? static_cast<int64_t>(i) : -1);
        EXPECT_EQ(info.gpu_name, has_gpu ? there[i].name : "");
      }
      EXPECT_TRUE(told[i].busy);
    }
  }
}

TEST_F(FitOnPool, APoolIsOnTheGpusThatWereNamed) {
  const auto open_on = [](pool::PoolKind kind, std::vector<int64_t> gpus, int64_t workers = 0) {
    return session->open_pool({.kind = kind, .workers = workers, .gpus = std::move(gpus), .quiet = true});
  };
  const auto threads = pool::PoolKind::threads;
  const auto there = device::gpus();
  if (there.empty()) {
    EXPECT_THAT(error_from([&] {
                  open_on(threads, {0, 2});
                }).message(),
                HasSubstr("a pool cannot be opened on GPU 0: there is no GPU to use: "));
    return;
  }
  ASSERT_EQ(there.size(), 4U) << "the stand-ins of gpus_test.py";
  EXPECT_EQ(there[2].index, 2);
  EXPECT_EQ(there[2].memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(there[2].free_memory_bytes, int64_t{1} << 30);
  train_alone("alone");
  for (const auto kind : {threads, pool::PoolKind::processes}) {
    const std::string run = std::string("two-") + enum_names(kind)[static_cast<size_t>(kind)];
    const pool::Pool pool = open_on(kind, {0, 2});
    ASSERT_EQ(pool.size(), 2);
    EXPECT_EQ(session->open_pool({.quiet = true}).size(), 2) << "nothing is asked for";
    const auto infos = pool.spmd(info_task);
    EXPECT_EQ(infos[0].gpu, 0);
    EXPECT_EQ(infos[1].gpu, 2);
    EXPECT_EQ(pool.workers()[1].gpu, 2);
    EXPECT_EQ(infos[1].gpu_name, there[2].name);
    Trial parallel = trial(run);
    parallel.execution = "parallel";
    train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
    EXPECT_EQ(weights(run), weights("alone"));
  }
  const pool::Pool four = open_on(threads, {2, 0}, 4);
  std::vector<int64_t> gpus;
  for (const pool::WorkerInfo& info : four.workers()) gpus.push_back(info.gpu);
  EXPECT_THAT(gpus, testing::ElementsAre(2, 2, 0, 0));
  Trial shared = trial("shared");
  shared.execution = "parallel";
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(shared));
  EXPECT_EQ(workers_of(folder_ / "shared"), 4);
  EXPECT_EQ(weights("shared"), weights("alone"));

  const Error absent = error_from([&] { open_on(threads, {0, 7}); });
  EXPECT_THAT(absent.message(), AllOf(HasSubstr("on GPU 7, which is not there"),
                                      HasSubstr("0 (stand-in), 1 (stand-in), 2 (stand-in), 3 (stand-in)")));
  EXPECT_THAT(error_from([&] { open_on(threads, {1, 1}); }).message(), HasSubstr("name GPU 1 twice"));
  const Error uneven = error_from([&] { open_on(threads, {0, 2}, 3); });
  EXPECT_THAT(uneven.message(), HasSubstr("3 workers cannot share the 2 GPUs of a pool evenly"));
  EXPECT_THAT(uneven.hint(), HasSubstr(".workers = 4"));
}

TEST_F(FitOnPool, MultiGpuNeedsAGroup) {
  Trial alone = trial("alone");
  alone.execution = "multi-gpu";
  const Error error = error_from([&] { open(pool::PoolKind::threads, 2).parfor(train_task, {alone}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_option);
  EXPECT_THAT(error.message(), HasSubstr("needs several workers"));
  EXPECT_THAT(error.hint(), HasSubstr(".workers = 2"));
}

TEST_F(FitOnPool, CancelStopsTheTrainingByItself) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("endless-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 1).parfeval(train_task, endless);
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
      std::this_thread::sleep_for(5ms);
    future.cancel();
    ASSERT_TRUE(future.wait(20s));
    EXPECT_EQ(future.state(), pool::FutureState::cancelled);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
        << "what was saved stays";
  }
}

TEST_F(FitOnPool, AskedToStopTheTrainingEndsWithItsWeights) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("asked-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 2).parfeval(train_task, endless, {.workers = 2});
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json"))
      std::this_thread::sleep_for(5ms);
    future.ask_to_stop();
    ASSERT_TRUE(future.wait(20s));
    const Outcome outcome = future.get();
    EXPECT_EQ(outcome.reason, "observer");
    EXPECT_FALSE(outcome.network.weights.empty());
  }
}

TEST_F(FitOnPool, TheClientShowsALineForEachTrial) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string name = enum_names(kind)[static_cast<size_t>(kind)];
    std::FILE* out = std::tmpfile();
    {
      const train::TrialProgress progress(out);
      open(kind, 2).parfor(shown_task, {trial(name + "-1", 1), trial(name + "-2", 2)},
                           {.queue = progress.queue()});
    }
    std::string text(static_cast<size_t>(std::ftell(out)), '\0');
    std::rewind(out);
    ASSERT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
    for (const char* seed : {"1", "2"}) {
      EXPECT_THAT(text, HasSubstr("seed " + std::string(seed) + "  epoch 1/2  loss "));
      EXPECT_THAT(text, HasSubstr("seed " + std::string(seed) + "  finished, held-out accuracy "));
      EXPECT_TRUE(std::filesystem::exists(folder_ / (name + "-" + seed) / "curves.svg"));
    }
  }
}

TEST_F(FitOnPool, TrialsOfOneProcessDecodeOnce) {
  const auto share = std::make_shared<data::ImageShare>();
  const auto kept = share->open(corners(64), {1, 8, 8, data::Resize::stretch}, 1 << 20);
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  std::vector<int64_t> seeds{1, 2, 3, 4, 5, 6};
  Corners::reads = 0;
  open(pool::PoolKind::threads, 3).parfor(seeds, [&](pool::Worker&, int64_t seed) {
    train::TrainingRequest request;
    request.dataset = corners(64);
    request.network = nn::find_network("mlp");
    request.images = share;
    train::fit(request, options_of(trial("shared-" + std::to_string(seed), seed)));
    return 0;
  });
  EXPECT_LE(Corners::reads, 64 + 3 * 8)
      << "each image once, but for those that two trials wanted at the same moment";
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  train_alone("alone", 4);
  EXPECT_EQ(weights("shared-4"), weights("alone"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return train::run(
      argc, argv,
      {train_task, shown_task, predict_task, by_hand_task, ask_task, return_task, info_task, plain_net_task},
      [&](pool::Session& own) {
        session = &own;
        testing::InitGoogleTest(&argc, argv);
        return RUN_ALL_TESTS();
      });
}
