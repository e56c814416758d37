// fit, predict and loops of one's own on pools: by a session, and in tasks of threads and processes. This program is its own worker, so main is at the end.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/data/picture_share.h"
#include "lockstep/device/gpu.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/pool/run.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/on_pool.h"
#include "lockstep/train/trained_network.h"
#include "lockstep/train/trial_progress.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

pool::Session* session = nullptr;

// A bright corner says which of four classes a picture is.
class Corners : public data::Datastore {
 public:
  explicit Corners(int64_t count) : count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 4; }
  std::string source(int64_t index) const override { return "corner " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 8, 8}; }
  void read_to(int64_t index, const data::Placement& placement) const override {
    ++reads;
    const auto pixels = placement({1, 8, 8});
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>((static_cast<size_t>(index) * 31 + i * 7) % 90);
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

// Loses its head over one picture, the tenth.
struct BrokenNetImpl : torch::nn::Module {
  explicit BrokenNetImpl(const nn::NetworkInput& input) : head(input.channels * input.height * input.width, input.classes) { register_module("head", head); }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor pixels = x.flatten(1);
    const torch::Tensor tenth = (pixels.select(1, 63) * 255 - 31).abs() < 0.5;
    return head(pixels).masked_fill(tenth.unsqueeze(1), std::numeric_limits<double>::quiet_NaN());
  }
  torch::nn::Linear head;
};
TORCH_MODULE(BrokenNet);
BrokenNet make_broken_net(const nn::NetworkInput& input) { return BrokenNet(input); }

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
  train::Options options{.mini_batch_size = 16, .max_epochs = trial.epochs, .patience = 0, .learning_rate = 0.05, .seed = trial.seed, .output = trial.output};
  set_field(options, "execution", trial.execution);
  return options;
}

int64_t workers_of(const std::filesystem::path& run) { return Json::parse(read_file(run / "options.json", 1 << 24)).at("plan").at("workers").get<int64_t>(); }

Outcome train_once(pool::Worker&, const Trial& trial) {
  const train::Result result = train::fit(nn::find_network("mlp"), corners(64), options_of(trial));
  Outcome outcome{.reason = enum_names(result.reason)[static_cast<size_t>(result.reason)], .workers = workers_of(result.output), .network = {}};
  if (result.reason != train::EndReason::stopped) outcome.network = trained_network(result);
  return outcome;
}

void train_shown(pool::Worker& worker, const Trial& trial) {
  train::Job job;
  job.dataset = corners(64);
  job.network = nn::find_network("mlp");
  job.listener = train::tell_client(worker, "seed " + std::to_string(trial.seed));
  train::fit(job, options_of(trial));
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
  for (const train::Prediction& one : predictions) all.insert(all.end(), one.scores.begin(), one.scores.end());
  return {static_cast<int64_t>(predictions.size()), static_cast<int64_t>(hash_of(std::as_bytes(std::span(all)))), {}};
}

Scores predict_once(pool::Worker&, const Trial& trial) { return scores_of(train::predict(train::model_of_run(trial.output), corners(41), {.mini_batch_size = 16})); }

// A loop of one's own: its steps, the weights, and what carried the gradients.
Scores train_by_hand(pool::Worker& worker, const Trial& trial) {
  const train::BuiltModel model = train::build(worker, nn::find_network("mlp"), corners(64), {.seed = trial.seed});
  train::Sgdm sgdm(model.parameters());
  const auto loss = [&](const data::Shard& shard) { return nn::cross_entropy_sum(model.forward(shard.input), shard.target); };
  for (const auto& batch : data::MiniBatchQueue(corners(64), worker.share(), {.mini_batch_size = 16, .shards = trial.shards, .epochs = trial.epochs})) {
    auto gradients = train::exchange(worker, train::loss_and_gradients(model, batch, loss)).gradients;
    if (trial.clip > 0) train::clip_gradients(model, gradients, trial.clip);
    sgdm.step(gradients);
  }
  return {sgdm.steps(), static_cast<int64_t>(model.hash()), worker.comm().way()};
}

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

class FitOnPool : public testing::Test {
 protected:
  void TearDown() override { session->close_pool(); }
  Trial trial(const std::string& run, int64_t seed = 0) const { return {.output = (folder_ / run).string(), .seed = seed}; }
  std::string weights(const std::string& run) const { return read_file(folder_ / run / "model.safetensors", 1 << 24); }
  pool::Pool open(pool::PoolKind kind, int64_t workers) const { return session->open_pool({.kind = kind, .workers = workers, .quiet = true}); }
  void train_alone(const std::string& run, int64_t seed = 0) const { train::fit(nn::find_network("mlp"), corners(64), options_of(trial(run, seed))); }

  const test::TemporaryFolder temporary_{};
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

TEST_F(FitOnPool, ParallelOpensTheDefaultPoolByItselfAndAutoOpensNone) {
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(trial("auto")));
  EXPECT_FALSE(session->current_pool().has_value());
  Trial parallel = trial("parallel");
  parallel.execution = "parallel";
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
  ASSERT_TRUE(session->current_pool().has_value());
  EXPECT_EQ(weights("parallel"), weights("auto"));
}

TEST_F(FitOnPool, AnErrorOfTheTrainingIsTheClients) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("bad"));
  options.execution = train::Execution::parallel;
  options.image_size = "0x0";
  EXPECT_THAT(error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(), HasSubstr("--image-size"));
  options.workers = 5;
  EXPECT_THAT(error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).message(), HasSubstr("5 workers in a pool of 2"));
  session->close_pool();
  open(pool::PoolKind::processes, 2);
  EXPECT_THAT(error_from([&] { train::fit(*session, nn::find_network("mlp"), corners(64), options); }).hint(), HasSubstr("pool of threads"));
}

TEST_F(FitOnPool, ALossThatIsNoNumberNamesItsShardAndRank) {
  open(pool::PoolKind::threads, 2);
  train::Options options = options_of(trial("broken"));
  options.execution = train::Execution::parallel;
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.shards = 4;
  const Error error = error_from([&] { train::fit(*session, nn::network<make_broken_net>("broken"), corners(64), options); });
  // The second worker's, unless the first was done before and took it over.
  EXPECT_THAT(error.message(), MatchesRegex("the loss became NaN in step 1, in shard 2 of rank [01]"));
  EXPECT_THAT(error.hint(), AllOf(HasSubstr("no learning rate is to blame"), HasSubstr("a network of your own")));
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
  const Scores alone = scores_of(train::predict(train::model_of_run(folder_ / "alone"), corners(41), {.mini_batch_size = 16}));
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
    const auto there = train::predict(train::model_of_run(folder_ / "alone"), corners(40), {.mini_batch_size = 16});
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
    for (const Scores& alone : pool.parfor(by_hand_task, {trial(""), trial("")})) EXPECT_EQ(alone.hash, expected.hash);
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
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json")) std::this_thread::sleep_for(5ms);
    future.cancel();
    ASSERT_TRUE(future.wait(20s));
    EXPECT_EQ(future.state(), pool::FutureState::cancelled);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(endless.output) / "options.json")) << "what was saved stays";
  }
}

TEST_F(FitOnPool, AskedToStopTheTrainingEndsWithItsWeights) {
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    Trial endless = trial(std::string("asked-") + enum_names(kind)[static_cast<size_t>(kind)]);
    endless.epochs = 1'000'000;
    const auto future = open(kind, 2).parfeval(train_task, endless, {.workers = 2});
    while (!std::filesystem::exists(std::filesystem::path(endless.output) / "options.json")) std::this_thread::sleep_for(5ms);
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
      open(kind, 2).parfor(shown_task, {trial(name + "-1", 1), trial(name + "-2", 2)}, {.queue = progress.queue()});
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
  const auto share = std::make_shared<data::PictureShare>();
  const auto kept = share->open(corners(64), {1, 8, 8, data::Resize::stretch}, 1 << 20);
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  std::vector<int64_t> seeds{1, 2, 3, 4, 5, 6};
  Corners::reads = 0;
  open(pool::PoolKind::threads, 3).parfor(seeds, [&](pool::Worker&, int64_t seed) {
    train::Job job;
    job.dataset = corners(64);
    job.network = nn::find_network("mlp");
    job.pictures = share;
    train::fit(job, options_of(trial("shared-" + std::to_string(seed), seed)));
    return 0;
  });
  EXPECT_LE(Corners::reads, 64 + 3 * 8) << "each picture once, but for those that two trials wanted at the same moment";
  EXPECT_EQ(share->kept_bytes(), 64 * 64);
  train_alone("alone", 4);
  EXPECT_EQ(weights("shared-4"), weights("alone"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return pool::run(argc, argv, {train_task, shown_task, predict_task, by_hand_task}, [&](pool::Session& own) {
    session = &own;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  });
}
