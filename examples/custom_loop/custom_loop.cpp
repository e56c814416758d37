// Trains a network in a custom loop, on one worker, on threads or on processes. The loop is the same, and so
// are the weights, bit for bit. docs/map.md compares it with MATLAB's "Train Network in Parallel with Custom
// Training Loop".
//
//   build/custom_loop/custom_loop FOLDER --workers 3      three threads; without a number, one for each core
//   build/custom_loop/custom_loop FOLDER --processes 2    two processes
//   torchrun --no-python --nproc-per-node 2 build/custom_loop/custom_loop FOLDER    two ranks
//
// The ranks of a launcher are the workers; mpirun, srun and lockstep run work too.
// FOLDER holds a folder of images for each class, e.g. the digits of data/digits-png.tar.gz (see
// examples/own_network). Its last line:
//   accuracy 0.875 on 200 images held out; weights 75f7ac9e4aeeb881
#include <cstdio>

#include "lockstep/lockstep.h"

using namespace lockstep;

// Inputs and results of workers are structs that describe their members, because a worker may be another
// process.
struct Settings {
  std::string folder{};
  int64_t epochs = 3;
  int64_t workers = 0;
  int64_t processes = 0;
  train::Precision precision = train::Precision::single;
  std::string output{};
  bool resume = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("folder", self.folder, "folder of images");
    field("epochs", self.epochs, "passes over the images", at_least(1));
    field("workers", self.workers, "threads; 0: one for each core", at_least(0));
    field("processes", self.processes, "processes, instead of threads", at_least(0));
    field("output", self.output, "run folder; empty: runs/custom_loop-001 and so on");
    field("resume", self.resume, "continue the run in it");
    field("precision", self.precision, "precision of the layers: 32-true, 64-true, bf16-mixed, fp16-mixed");
  };
};

struct Progress {
  int64_t epoch = 0;
  double loss = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("epoch", self.epoch, "epoch that has ended");
    field("loss", self.loss, "loss of its last mini-batch");
  };
};

struct Trained {
  double accuracy = 0;
  int64_t held_out = 0;
  std::string weights{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("accuracy", self.accuracy, "accuracy on held-out images");
    field("held-out", self.held_out, "number of held-out images");
    field("weights", self.weights, "hash of the weights");
  };
};

// The loop. Every worker runs it for the shards of its worker.share(); exchange adds the sums of all workers.
Trained train_by_hand(Worker& worker, const Settings& settings) {
  const auto [images, held_out] = data::ImageFolder(settings.folder).split(0.8, {.seed = 1});
  // All workers have equal weights.
  const train::BuildOptions build{.seed = 1, .precision = settings.precision};
  const auto model = train::build(worker, nn::find_network("digits_cnn"), images, build);
  train::Sgdm sgdm(model.parameters(), {.learning_rate = 0.01, .momentum = 0.9});
  // Threads share the images, so each image is decoded once. Pixels have the type of the weights.
  const data::QueueOptions options{.mini_batch_size = 128,
                                   .order = {.seed = 1},
                                   .epochs = settings.epochs,
                                   .output = {.type = train::number_type(settings.precision)},
                                   .shared = train::shared_images(worker)};
  // The run folder gets events, curves and checkpoints; lockstep runs, stop, diff and report work on it.
  const train::RunRecordOptions record{
      .output = settings.output, .resume = settings.resume, .name = "custom_loop", .data = settings.folder};
  double accuracy = 0;
  train::record_run(worker, model, &sgdm, record, [&](train::RunRecord& run) {
    for (const auto& batch : data::MiniBatchQueue(images, worker.share(), run.from_here(options))) {
      const auto own = train::loss_and_gradients(model, batch, [&](const data::Shard& shard) {
        return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
      });
      // Loss, gradients and batch-norm statistics of the whole mini-batch.
      const auto whole = train::exchange(worker, own);
      // fp16-mixed: no step where a gradient is not finite, as in PyTorch's GradScaler.
      sgdm.step(whole.gradients);
      if (batch.ends_epoch && worker.rank() == 0) worker.send(Progress{batch.cursor.epoch + 1, whole.loss});
      if (!run.step(batch, whole)) return;
    }
    accuracy = train::accuracy(model, held_out, worker.comm());
    run.validation(accuracy);
  });
  return {accuracy, held_out.size(), as_hex(model.hash())};
}

constexpr auto train_task = task<train_by_hand>("train_by_hand");

void client(Session& session) {
  const auto& words = session.arguments();
  if (words.size() % 2 == 0) {
    throw Error(ErrorCode::invalid_option,
                "the arguments are not a folder of images and pairs of an option and a value",
                "usage: custom_loop FOLDER [--workers N | --processes N] [--epochs N] [--precision 32-true] "
                "[--output RUN] [--resume true]");
  }
  Settings settings{.folder = words.front()};
  for (size_t i = 1; i < words.size(); i += 2)
    set_field(settings, words[i].starts_with("--") ? words[i].substr(2) : words[i], words[i + 1]);
  const bool processes = settings.processes > 0;
  const Pool pool = session.open_pool({.kind = processes ? PoolKind::processes : PoolKind::threads,
                                       .workers = processes ? settings.processes : settings.workers});
  const DataQueue<Progress> queue([](const Progress& progress) {
    std::printf("Epoch: %lld, Loss: %.4f\n", static_cast<long long>(progress.epoch), progress.loss);
  });
  const Trained trained =
      pool.spmd(train_task, settings, {.queue = queue}).front();  // one result for each rank, all equal
  std::printf("accuracy %.3f on %lld images held out; weights %s\n", trained.accuracy,
              static_cast<long long>(trained.held_out), trained.weights.c_str());
}

int main(int argc, char** argv) { return run(argc, argv, {train_task}, client); }
