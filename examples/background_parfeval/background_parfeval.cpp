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
using namespace lockstep::pool;

// What workers send while they train. `describe` names its members, so that it could also come from another
// process.
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

// Trains one network and tells the client about each validation. When its call is cancelled, fit ends
// automatically.
double train_in_background(Worker& worker, const std::string& network, const data::Dataset& images,
                           int64_t epochs) {
  const train::TrainingRequest request{
      .dataset = images, .network = nn::find_network(network), .observer = [&](const record::Event& event) {
        if (event.kind == "validation")
          worker.send(Progress{network, event.epoch, record::number(event, "accuracy")});
        return record::Control::go;
      }};
  return train::fit(request, {.mini_batch_size = 32, .max_epochs = epochs, .patience = 0}).accuracy;
}

void client(Session& session) {
  if (session.arguments().size() != 1)
    throw Error(ErrorCode::invalid_option, "no folder of images was named",
                "usage: background_parfeval FOLDER");
  const data::ImageFolder images(session.arguments().front());  // shared by all trainings
  const Pool pool = session.open_pool({.workers = 3});
  const DataQueue<Progress> queue(
      [](const Progress& progress) {  // called here, in the client, for one value at a time
        std::printf("  %s, epoch %lld: %.3f\n", progress.network.c_str(),
                    static_cast<long long>(progress.epoch), progress.accuracy);
      });

  const std::vector<std::string> networks{"mlp", "lenet", "digits_cnn"};
  const std::vector<int64_t> epochs{2, 2, 1000};  // the last one would take very long
  std::vector<Future<double>> trainings;
  for (size_t i = 0; i < networks.size(); ++i) {
    // Captured by value: when an error ends this function, other trainings may still run.
    trainings.push_back(
        pool.parfeval({.queue = queue}, [images, network = networks[i], epochs = epochs[i]](Worker& worker) {
          return train_in_background(worker, network, images, epochs);
        }));
  }
  std::printf("%zu trainings run in the background\n", trainings.size());

  size_t finished = 0;
  while (finished < 2) {
    const size_t next = next_finished(trainings).value();  // in the order in which they end
    std::printf("%s has finished with accuracy %.3f\n", networks[next].c_str(), trainings[next].get());
    ++finished;
  }
  trainings.back().cancel();
  trainings.back().wait(std::chrono::minutes(1));
  std::printf("%zu trainings: %zu finished, %d cancelled\n", trainings.size(), finished,
              trainings.back().state() == FutureState::cancelled);
}

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
