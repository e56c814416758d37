// --on-out-of-memory: memory that runs out on one worker splits the shards of all. This program is its own
// worker, so main is at the end.
#include <filesystem>
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/module.h"
#include "lockstep/pool/run.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/run/fit.h"

namespace lockstep {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

pool::Session* session = nullptr;

constexpr int64_t kSide = 8;
constexpr int64_t kMarked = 9;  // level of a pixel; the next pixel has the same

// Two bright corners for two classes. For a batch that has a marked image, memory runs out if the batch has
// more than 255 - mark samples. Images 40 and 77 are marked; with the images in order and 32 in a step, these
// are in the second and the third step.
class MarkedCorners : public data::Datastore {
 public:
  int64_t size() const override { return 100; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "corner " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, kSide, kSide}; }
  uint64_t listing_hash() const override { return 1; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    const auto pixels = sink(image_size(index));
    uint32_t state = static_cast<uint32_t>(index + 1) * 2654435761U;
    for (uint8_t& pixel : pixels)
      pixel = static_cast<uint8_t>((state = state * 1664525U + 1013904223U) >> 25);
    pixels[label(index) == 0 ? 0 : kSide - 1] = 255;
    if (index == 40) pixels[kMarked] = pixels[kMarked + 1] = 255 - 5;
    if (index == 77) pixels[kMarked] = pixels[kMarked + 1] = 255 - 3;
  }

 private:
  std::vector<std::string> classes_{"left", "right"};
};

// The settings of a training, also in another process.
struct Trial {
  std::string output{};
  std::string network = "module";  // or graph
  bool in_backward = false;        // memory runs out there
  bool roomy = false;              // memory never runs out
  bool hopeless = false;           // it does for any batch that has a marked image
  std::string options = "{}";      // JSON
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("output", self.output, "");
    field("network", self.network, "");
    field("in-backward", self.in_backward, "");
    field("roomy", self.roomy, "");
    field("hopeless", self.hopeless, "");
    field("options", self.options, "");
  };
};

[[noreturn]] void run_out() {
  TORCH_CHECK_WITH(OutOfMemoryError, false,
                   "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has less. ");
}

bool fits(const at::Tensor& images, bool hopeless) {
  const at::Tensor pixels = (images.detach().flatten(1) * 255).round().cpu();
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    const auto mark = pixels[i][kMarked].item<double>();
    const bool is_marked =
        (mark == 255 - 5 || mark == 255 - 3) && pixels[i][kMarked + 1].item<double>() == mark;
    if (is_marked && (hopeless || static_cast<double>(pixels.size(0)) > 255 - mark)) return false;
  }
  return true;
}

// Behaves as if it allocated memory for its whole batch, in forward or in backward.
at::Tensor with_memory(const Trial& trial, const at::Tensor& images,
                       const std::function<at::Tensor()>& forward) {
  if (trial.roomy || !at::GradMode::is_enabled() || fits(images, trial.hopeless)) return forward();
  if (!trial.in_backward) run_out();
  const at::Tensor logits = forward();
  logits.register_hook([](const at::Tensor&) { throw std::bad_alloc(); });
  return logits;
}

struct MarkedNetImpl : torch::nn::Module {
  MarkedNetImpl(const nn::NetworkInput& input, Trial asked)
      : trial(std::move(asked)),
        convolution(torch::nn::Conv2dOptions(input.channels, 6, 3)),
        norm(6),
        dropout(0.3),
        head(6 * (input.height - 2) * (input.width - 2), input.classes) {
    register_module("convolution", convolution);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return with_memory(trial, x, [&] { return head(dropout(torch::relu(norm(convolution(x))).flatten(1))); });
  }
  Trial trial;
  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Dropout dropout;
  torch::nn::Linear head;
};

// A layer graph, whose shards are computed together and whose gradients are written in place, or a module
// with batch norm and dropout.
nn::Network network_of(const Trial& trial) {
  if (trial.network == "module")
    return nn::network("marked", [trial](const nn::NetworkInput& input) {
      return std::make_shared<MarkedNetImpl>(input, trial);
    });
  return {"marked graph", [trial](const nn::NetworkInput& input) {
            nn::Instance instance = nn::find_network("mlp").make(input);
            instance.forward = [trial, forward = instance.forward](const at::Tensor& x) {
              return with_memory(trial, x, [&] { return forward(x); });
            };
            return instance;
          }};
}

train::Options options_of(const Trial& trial) {
  train::Options options{.shuffle = data::Shuffle::never,
                         .shards = 4,
                         .mini_batch_size = 32,
                         .max_epochs = 3,
                         .patience = 0,
                         .learning_rate = 0.05,
                         .out_of_memory = train::OutOfMemory::split,
                         .output = trial.output};
  read_json(Json::parse(trial.options), options, "the test");
  return options;
}

train::TrainingRequest job_of(const Trial& trial) {
  train::TrainingRequest request;
  request.dataset = data::Dataset(std::make_shared<MarkedCorners>());
  request.validation = request.dataset;
  request.network = network_of(trial);
  return request;
}

struct Outcome {
  int64_t steps = 0;
  static constexpr auto describe = [](auto& self, auto&& field) { field("steps", self.steps, ""); };
};

Outcome train_once(pool::Worker&, const Trial& trial) {
  return {fit(job_of(trial), options_of(trial)).steps};
}
constexpr auto train_task = pool::task<train_once>("train_once");

class OutOfMemory : public testing::Test {
 protected:
  void TearDown() override { session->close_pool(); }
  Trial trial(const std::string& run, const Json& options = Json::object()) const {
    return {.output = (folder_ / run).string(), .options = options.dump()};
  }
  std::string weights(const std::string& run) const {
    return read_file(folder_ / run / "model.safetensors", 1 << 24) +
           read_file(folder_ / run / "best.safetensors", 1 << 24);
  }

  // For each event of an attempt that reports a split: steps done, and pieces from then on.
  std::vector<std::pair<int64_t, int64_t>> splits(const std::string& run, int64_t attempt = 0) const {
    std::vector<std::pair<int64_t, int64_t>> splits;
    std::istringstream lines(read_file(
        folder_ / run / "events" / ("rank-0-attempt-" + std::to_string(attempt) + ".jsonl"), 1 << 24));
    for (std::string line; std::getline(lines, line);) {
      const Json event = Json::parse(line);
      if (event["kind"] == "message" && event["values"].contains("pieces"))
        splits.emplace_back(event["step"], event["values"]["pieces"]);
    }
    return splits;
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(OutOfMemory, SplitsTheShardsOfAllWorkersWithEqualWeights) {
  for (const char* network : {"module", "graph"}) {
    for (const bool in_backward : {false, true}) {
      const std::string name = std::string(network) + (in_backward ? " backward " : " forward ");
      for (const int64_t workers : {1, 2, 3}) {
        Trial one = trial(name + std::to_string(workers), {{"workers", workers}});
        one.network = network;
        one.in_backward = in_backward;
        const train::Result result = fit(job_of(one), options_of(one));
        EXPECT_EQ(result.steps, 12);
        EXPECT_THAT(splits(name + std::to_string(workers)), ElementsAre(Pair(1, 2), Pair(2, 4)))
            << name << workers;
        EXPECT_EQ(weights(name + std::to_string(workers)), weights(std::string(network) + " forward 1"));
      }
    }
  }
  EXPECT_NE(weights("module forward 1"), weights("graph forward 1"));
}

TEST_F(OutOfMemory, SplitsTheShardsOfAllProcessesWithEqualWeights) {
  Trial alone = trial("alone");
  fit(job_of(alone), options_of(alone));
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const std::string run = enum_names(kind)[static_cast<size_t>(kind)];
    session->close_pool();
    EXPECT_THAT(session->open_pool({.kind = kind, .workers = 2, .quiet = true}).spmd(train_task, trial(run)),
                Each(Field(&Outcome::steps, 12)));
    EXPECT_THAT(splits(run), ElementsAre(Pair(1, 2), Pair(2, 4)));
    EXPECT_EQ(weights(run), weights("alone"));
  }
}

// From the step that was split on, training equals training with --accumulate.
TEST_F(OutOfMemory, SplitFromTheFirstStepOnIsAccumulate) {
  const auto from_first = [&](const std::string& run, bool roomy, int64_t accumulate) {
    Trial one = trial(run, {{"workers", 2}, {"mini-batch-size", 100}, {"accumulate", accumulate}});
    one.roomy = roomy;
    fit(job_of(one), options_of(one));
  };
  from_first("split", false, 1);  // 25 samples a shard, of which 3 fit
  from_first("whole", true, 1);
  EXPECT_THAT(splits("split"), ElementsAre(Pair(0, 2), Pair(0, 4), Pair(0, 8), Pair(0, 16)));
  EXPECT_NE(weights("split"), weights("whole"));
  from_first("accumulate", true, 16);
  EXPECT_EQ(weights("split"), weights("accumulate"));
  EXPECT_THAT(splits("accumulate"), IsEmpty());
}

TEST_F(OutOfMemory, AResumeGoesOnWithTheSplit) {
  const Trial whole = trial("whole", {{"workers", 2}});
  fit(job_of(whole), options_of(whole));
  for (const int64_t last : {2, 3, 7}) {
    const std::string run = "broken after " + std::to_string(last);
    Trial parts = trial(run, {{"workers", 3}});
    train::TrainingRequest request = job_of(parts);
    request.observer = [&](const record::Event& event) -> record::Control {
      if (event.kind == "step" && event.step == last + 1) throw std::runtime_error("killed");
      return record::Control::go;
    };
    EXPECT_THROW(fit(request, options_of(parts)), std::runtime_error);
    const auto checkpoint = train::last_checkpoint(parts.output);
    ASSERT_TRUE(checkpoint.has_value());
    EXPECT_EQ(checkpoint->state.pieces, last == 2 ? 2 : 4) << "a split is saved at once";
    parts.roomy = last > 2;  // memory that does not run out again
    train::Options options = options_of(parts);
    options.resume = true;
    options.workers = 1;
    fit(job_of(parts), options);
    EXPECT_EQ(weights(run), weights("whole")) << run;
  }
}

TEST_F(OutOfMemory, WithoutTheOptionItIsAnErrorAndAResumeMaySplit) {
  const Trial whole = trial("whole");
  fit(job_of(whole), options_of(whole));
  Trial one = trial("error", {{"on-out-of-memory", "error"}, {"workers", 2}, {"checkpoint-every", 1}});
  try {
    fit(job_of(one), options_of(one));
    FAIL() << "memory did not run out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("the GPU's memory is full: CUDA out of memory. Tried to allocate "
                                        "2.00 GiB\n  in step 2, in shard 1 with 8 samples\n"));
    EXPECT_THAT(
        error.hint(),
        HasSubstr("--shards 8 computes 4 at once, and --accumulate 2 computes 4 at once of the same shards; "
                  "--on-out-of-memory split does this automatically, also with --resume; or use a smaller"));
  }
  one.options = R"({"resume": true})";
  fit(job_of(one), options_of(one));
  EXPECT_THAT(splits("error", 1), ElementsAre(Pair(1, 2), Pair(2, 4)));
  EXPECT_EQ(weights("error"), weights("whole"));
}

TEST_F(OutOfMemory, PiecesThatCannotBeSmallerAreAnError) {
  Trial one = trial("hopeless", {{"workers", 2}});
  one.hopeless = true;
  try {
    fit(job_of(one), options_of(one));
    FAIL() << "memory did not run out";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\n  in step 2, in shard 1 with 8 samples in 4 pieces\n"));
    EXPECT_THAT(error.hint(), StartsWith("use a smaller --mini-batch-size"));
  }
  EXPECT_THAT(splits("hopeless"), ElementsAre(Pair(1, 2), Pair(1, 4)));
}

TEST_F(OutOfMemory, ReplicasOfAveragingModeAreSplitToo) {
  for (const int64_t workers : {1, 2, 3}) {
    const std::string run = "average " + std::to_string(workers);
    const Trial one = trial(run, {{"workers", workers},
                                  {"exchange", "average"},
                                  {"mini-batch-size", 8},
                                  {"averaging-frequency", 2},
                                  {"max-epochs", 2}});
    fit(job_of(one), options_of(one));
    EXPECT_THAT(splits(run), ElementsAre(Pair(1, 2), Pair(2, 4))) << run;
    EXPECT_EQ(weights(run), weights("average 1"));
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return pool::run(argc, argv, {train_task}, [&](pool::Session& own) {
    session = &own;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  });
}
