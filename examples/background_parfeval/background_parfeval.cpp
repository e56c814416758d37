// Trains networks in the background. The program continues at once, receives their progress, and takes
// results as they arrive. When one network is good enough, it cancels the trainings that have not ended.
//
//   build/background_parfeval/background_parfeval FOLDER
//
// FOLDER holds a folder of images for each class, e.g. the digits of data/digits-png.tar.gz (see
// examples/own_network). Its last line:
//   3 trainings: 2 finished, 1 cancelled
#include <cstdio>

#include "lockstep/lockstep.h"

using namespace lockstep;

// What workers are given and what they send: structs that describe their members, because a worker may be a
// process on another machine.
struct Settings {
  std::string folder{};
  std::string network{};
  int64_t epochs = 1;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "folder that has a folder of images for each class");
    field("network", self.network, "name of the network");
    field("epochs", self.epochs, "passes over the images");
  };
};

struct Progress {
  std::string network{};
  int64_t epoch = 0;
  double accuracy = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("network", self.network, "name of the network");
    field("epoch", self.epoch, "epoch that has ended");
    field("accuracy", self.accuracy, "accuracy on held-out images");
  };
};

struct Trained {
  double accuracy = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("accuracy", self.accuracy, "accuracy on held-out images");
  };
};

// Trains one network and tells the client about each validation. When its call is cancelled, fit ends
// automatically.
Trained train_in_background(Worker& worker, const Settings& settings) {
  const train::TrainingRequest request{
      .folder = settings.folder,
      .network = nn::find_network(settings.network),
      .observer = [&](const record::Event& event) {
        if (event.kind == "validation")
          worker.send(Progress{settings.network, event.epoch, record::number(event, "accuracy")});
        return record::Control::go;
      }};
  return {
      train::fit(request, {.mini_batch_size = 32, .max_epochs = settings.epochs, .patience = 0}).accuracy};
}

constexpr auto train_task = task<train_in_background>("train_in_background");

void client(Session& session) {
  if (session.arguments().size() != 1)
    throw Error(ErrorCode::invalid_option, "the arguments are not one folder of images",
                "usage: background_parfeval FOLDER");
  const std::string& folder = session.arguments().front();
  const Pool pool = session.open_pool({.workers = 3});
  const DataQueue<Progress> queue(
      [](const Progress& progress) {  // called here, in the client, for one value at a time
        std::printf("  %s, epoch %lld: %.3f\n", progress.network.c_str(),
                    static_cast<long long>(progress.epoch), progress.accuracy);
      });

  // The last one would take very long.
  const std::vector<Settings> settings{
      {folder, "mlp", 2}, {folder, "lenet", 2}, {folder, "digits_cnn", 1000}};
  std::vector<Future<Trained>> trainings;
  for (const Settings& one : settings) trainings.push_back(pool.parfeval(train_task, one, {.queue = queue}));
  std::printf("%zu trainings run in the background\n", trainings.size());

  size_t finished = 0;
  while (finished < 2) {
    const size_t next = next_finished(trainings).value();  // in the order in which they end
    std::printf("%s has finished with accuracy %.3f\n", settings[next].network.c_str(),
                trainings[next].get().accuracy);
    ++finished;
  }
  trainings.back().cancel();
  trainings.back().wait(std::chrono::minutes(1));
  std::printf("%zu trainings: %zu finished, %d cancelled\n", trainings.size(), finished,
              trainings.back().state() == FutureState::cancelled);
}

int main(int argc, char** argv) { return run(argc, argv, {train_task}, client); }
