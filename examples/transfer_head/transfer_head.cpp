// Gives a trained network a new head. Its weights come from a safetensors file. The layers that --head names
// start with new weights, for other classes than those it was trained on. The other layers stay as they are
// (--backbone 0) or learn too, at a fraction of the learning rate.
//
//   build/transfer_head/transfer_head FOLDER WEIGHTS            digits_cnn, whose last layer is "10"
//   build/transfer_head/transfer_head FOLDER WEIGHTS --network squeezenet --head classifier.1 --backbone 0
//
// FOLDER holds a folder of images for each class. WEIGHTS is a file of safetensors or of PyTorch's
// torch.save, such as the model.safetensors of a run. The last line:
//   accuracy 0.850 on 100 images held out; 115210 of 123090 learnables are of the new head "10"
#include <cstdio>
#include <map>

#include "lockstep/lockstep.h"

using namespace lockstep;

struct Settings {
  std::string network = "digits_cnn";
  std::string head = "10";
  double backbone = 0.1;
  double learning_rate = 0.05;
  int64_t mini_batch_size = 32;
  int64_t epochs = 5;
  int64_t workers = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("network", self.network, "network of the weights");
    field("head", self.head, "layer that starts with new weights");
    field("backbone", self.backbone, "learning rate factor of the other layers; 0: frozen", between(0, 1));
    field("learning-rate", self.learning_rate, "learning rate of the head", above(0));
    field("mini-batch-size", self.mini_batch_size, "samples in a step", at_least(2));
    field("epochs", self.epochs, "passes over the images", at_least(1));
    field("workers", self.workers, "threads; 0: one for each core", at_least(0));
  };
};

// A custom rule: without momentum, and the backbone is drawn back to its initial weights (L2-SP: Li,
// Grandvalet, Davoine 2018).
void step(const train::BuiltModel& model, const std::vector<at::Tensor>& gradients,
          const std::map<std::string, at::Tensor>& start, const Settings& settings) {
  constexpr double kDrawn = 0.01;
  train::update(
      model, gradients, [&](const std::string& name, const at::Tensor& weight, const at::Tensor& gradient) {
        if (name.starts_with(settings.head + ".")) return weight - settings.learning_rate * gradient;
        return weight -
               settings.backbone * settings.learning_rate * (gradient + kDrawn * (weight - start.at(name)));
      });
}

void client(Session& session) {
  const auto& words = session.arguments();
  if (words.size() < 2 || words.size() % 2 != 0)
    throw Error(ErrorCode::invalid_option,
                "the arguments are not a folder of images, weights, and pairs of an option and a value",
                "usage: transfer_head FOLDER WEIGHTS [--OPTION VALUE]...");
  Settings settings;
  for (size_t i = 2; i < words.size(); i += 2)
    set_field(settings, words[i].starts_with("--") ? words[i].substr(2) : words[i], words[i + 1]);
  const auto [images, held_out] = data::ImageFolder(words[0]).split(0.8, {.seed = 1});

  session.open_pool({.workers = settings.workers}).spmd([&](Worker& worker) {
    const auto model = train::build(worker, nn::find_network(settings.network), images,
                                    {.seed = 1, .weights = words[1], .fresh = {settings.head}});
    if (settings.backbone == 0)
      model.freeze_all_but({settings.head});  // no gradients are computed for them either
    std::map<std::string, at::Tensor> start;
    int64_t learnables = 0, of_head = 0;
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const auto [name, weight] =
          std::pair(model.parameter_names()[i], model.parameters()[i].detach().clone());
      start[name] = weight;
      learnables += weight.numel();
      if (name.starts_with(settings.head + ".")) of_head += weight.numel();
    }
    const data::QueueOptions options{.mini_batch_size = settings.mini_batch_size,
                                     .order = {.seed = 1},
                                     .epochs = settings.epochs,
                                     .shared = train::shared_images(worker)};
    double accuracy = 0;
    // The rule has no state of its own, so there is no updater to record.
    train::record_run(
        worker, model, nullptr, {.name = "transfer_head", .data = words[0]}, [&](train::RunRecord& run) {
          for (const auto& batch : data::MiniBatchQueue(images, worker.share(), run.from_here(options))) {
            const auto own = train::loss_and_gradients(model, batch, [&](const data::Shard& shard) {
              return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
            });
            const auto whole = train::exchange(worker, own);
            step(model, whole.gradients, start, settings);
            if (!run.step(batch, whole, settings.learning_rate)) return;
          }
          accuracy = train::accuracy(model, held_out, worker.comm());
          run.validation(accuracy);
        });
    if (worker.rank() != 0) return;
    std::printf("accuracy %.3f on %lld images held out; %lld of %lld learnables are of the new head \"%s\"\n",
                accuracy, static_cast<long long>(held_out.size()), static_cast<long long>(of_head),
                static_cast<long long>(learnables), settings.head.c_str());
  });
}

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
