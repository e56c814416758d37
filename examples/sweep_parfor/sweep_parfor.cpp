// Trains one network at several learning rates, one trial on each worker, and prints a table in the order of
// the rates.
//
//   build/sweep_parfor/sweep_parfor FOLDER             workers are threads of this program, one for each core
//   build/sweep_parfor/sweep_parfor FOLDER processes   workers are processes, with the same task and table
//
// FOLDER holds a folder of images for each class, e.g. the digits of data/digits-png.tar.gz (see
// examples/own_network). Its last line:
//   best: learning rate 0.05, accuracy 0.978 of 4 trials
#include <algorithm>
#include <cstdio>

#include "lockstep/lockstep.h"

using namespace lockstep;

// The input and the result of a trial are structs that describe their members, so that they can be sent to
// another process and back.
struct Trial {
  std::string folder{};
  double learning_rate = 0.01;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "folder that has a folder of images for each class");
    field("learning-rate", self.learning_rate, "learning rate of the first step");
  };
};

struct Score {
  double learning_rate = 0;
  double accuracy = 0;
  double seconds = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("learning-rate", self.learning_rate, "learning rate of the trial");
    field("accuracy", self.accuracy, "accuracy on held-out images");
    field("seconds", self.seconds, "seconds of training");
  };
};

// A task: a plain function, run for one trial on one worker. In a task, fit uses only that worker's core,
// because the others run other trials. Trials of one process share the decoded images.
Score train_once(Worker& worker, const Trial& trial) {
  const train::TrainingRequest request{
      .folder = trial.folder,
      .network = nn::find_network("lenet"),
      .listener = train::tell_client(worker, "rate " + std::to_string(trial.learning_rate))};
  const auto result =
      train::fit(request, {.mini_batch_size = 32, .max_epochs = 2, .learning_rate = trial.learning_rate});
  return {trial.learning_rate, result.accuracy, result.seconds};
}

constexpr auto train_task = task<train_once>("train_once");  // another process finds it by this name

int client(Session& session) {
  const std::vector<std::string>& arguments = session.arguments();
  const std::string where = arguments.size() == 2 ? arguments.back() : "threads";
  const bool processes = where == "processes";
  if (arguments.empty() || arguments.size() > 2 || (where != "threads" && !processes))
    throw Error(ErrorCode::invalid_option,
                "the arguments are not a folder of images, or this and the word threads or processes",
                "usage: sweep_parfor FOLDER [threads|processes]");
  const Pool pool = session.open_pool({.kind = processes ? PoolKind::processes : PoolKind::threads});

  std::vector<Trial> trials;
  for (const double rate : {0.0005, 0.005, 0.02, 0.05}) trials.push_back({arguments.front(), rate});
  const train::TrialProgress progress(stderr);  // a line and a curve for each trial, while they run
  const std::vector<Score> scores = pool.parfor(
      train_task, trials, {.queue = progress.queue()});  // waits; the first failure is thrown here

  std::printf("learning rate  accuracy  seconds\n");
  for (const Score& score : scores)
    std::printf("%13g %9.3f %8.1f\n", score.learning_rate, score.accuracy, score.seconds);
  const auto best = *std::max_element(scores.begin(), scores.end(),
                                      [](const Score& a, const Score& b) { return a.accuracy < b.accuracy; });
  std::printf("best: learning rate %g, accuracy %.3f of %zu trials\n", best.learning_rate, best.accuracy,
              scores.size());
  return 0;
}

int main(int argc, char** argv) { return run(argc, argv, {train_task}, client); }
