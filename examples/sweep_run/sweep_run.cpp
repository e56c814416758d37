// Searches the learning rate, the mini-batch size and the network of a training: a Gaussian process learns
// from the first trials what to try next. The trials are calls of a task on a pool.
//
//   build/sweep_run/sweep_run FOLDER             workers are threads of this program, one for each core
//   build/sweep_run/sweep_run FOLDER processes   workers are processes, with the same trials and results
//
// FOLDER holds a folder of images for each class, e.g. the digits of data/digits-png.tar.gz (see
// examples/own_network). Its last line:
//   best: trial 13, accuracy 0.967 with learning-rate=0.0184 mini-batch-size=19 network=digits_cnn
#include <cstdio>

#include "lockstep/lockstep.h"

using namespace lockstep;

// The input of a trial. Fields with the names of searched parameters are set for each trial.
struct Settings {
  std::string folder{};
  std::string network = "lenet";
  double learning_rate = 0.01;
  int64_t mini_batch_size = 32;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "folder that has a folder of images for each class");
    field("network", self.network, "name of a built-in network");
    field("learning-rate", self.learning_rate, "learning rate of the first step");
    field("mini-batch-size", self.mini_batch_size, "samples of a step");
  };
};

struct Score {
  double accuracy = 0;
  double seconds = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("accuracy", self.accuracy, "accuracy on held-out images; the search looks for the highest");
    field("seconds", self.seconds, "seconds of training");
  };
};

Score train_once(Worker&, const Settings& settings) {
  const auto result = train::fit({.folder = settings.folder, .network = nn::find_network(settings.network)},
                                 {.mini_batch_size = settings.mini_batch_size,
                                  .max_epochs = 2,
                                  .learning_rate = settings.learning_rate});
  return {result.accuracy, result.seconds};
}

constexpr auto train_task = task<train_once>("train_once");  // another process finds it by this name

std::string text_of(const sweep::Assignment& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) text += " " + name + "=" + value;
  return text;
}

int client(Session& session) {
  const std::vector<std::string>& arguments = session.arguments();
  const std::string where = arguments.size() == 2 ? arguments.back() : "threads";
  const bool processes = where == "processes";
  if (arguments.empty() || arguments.size() > 2 || (where != "threads" && !processes))
    throw Error(ErrorCode::invalid_option,
                "the arguments are not a folder of images, or this and the word threads or processes",
                "usage: sweep_run FOLDER [threads|processes]");
  // Throws for a folder without images. In a search, a trial that fails is a result, and the next one begins.
  data::open_source(arguments.front());
  session.open_pool({.kind = processes ? PoolKind::processes : PoolKind::threads});

  sweep::Space space;  // the same texts as on the command line of lockstep sweep
  space.add("learning-rate", "0.0005..0.05:log");
  space.add("mini-batch-size", "16..64");
  space.add("network", "lenet,digits_cnn");
  // A trial depends on those that are more than `lag` before it, whatever runs at the same time.
  const sweep::RunOptions options{
      .search = {.sampler = {.kind = sweep::SearchKind::gp, .seed = 1}, .count = 16, .lag = 2},
      .metric = "accuracy",
      .report = [](const sweep::Trial& trial) {  // in the order in which trials end
        std::fprintf(stderr, "trial %d has ended: %.3f\n", static_cast<int>(trial.number), trial.value);
      }};
  const auto found = sweep::run(session, space, train_task, options, {.folder = arguments.front()});

  for (const sweep::Trial& trial : found.trials)
    std::printf("%2d  %.3f %s\n", static_cast<int>(trial.number), trial.value,
                text_of(found.parameters_of(trial.number)).c_str());
  if (!found.best) throw Error(ErrorCode::internal, "all trials have failed: " + found.trials.front().error);
  std::printf("best: trial %d, accuracy %.3f with%s\n", static_cast<int>(*found.best),
              found.results[static_cast<size_t>(*found.best)]->accuracy,
              text_of(found.parameters_of(*found.best)).c_str());
  return 0;
}

int main(int argc, char** argv) { return run(argc, argv, {train_task}, client); }
