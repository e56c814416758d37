// One table of all places where a network can be trained and asked: each gives what one process gives.
#include <cstdlib>

#include <gmock/gmock.h>

#include <torch/torch.h>

#include "lockstep/train/inference/layer_outputs.h"

#include "tasks.h"

namespace lockstep {
namespace {

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

}  // namespace

Answers ask_here(pool::Worker&, const Trial& trial) {
  return ask_for_all(trial.output.ends_with(kSequences.name) ? kSequences : kImages, trial);
}

}  // namespace lockstep
