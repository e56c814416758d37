// The experiment of MATLAB's white paper "Deep Learning with MATLAB on Multiple GPUs", line by line: AlexNet
// with trained weights and a new head, on images in an object store, with a mini-batch and a learning rate
// that grow with the number of workers. MATLAB's lines are in the comments.
//
//   build/white_paper/white_paper s3://bucket/photos --weights alexnet.safetensors --workers 8
//   lockstep batch -- build/white_paper/white_paper s3://bucket/photos ...      the same as a job
//
// The folder holds a folder of images for each class. Keys of the store are taken from the usual places
// (docs/stores.md). Without --weights the network starts from random weights. Weights are taken to be of
// images that were normalised as torchvision's; --normalize names another normalisation, and --normalize auto
// takes that of the run of Lockstep that has written the weights. The last line:
//   accuracy 0.870 on 9600 images; mini-batch 2000, learning rate 0.01, 8 workers, weights 5d41402abc4b2a76
#include <cstdio>
#include <ctime>

#include "lockstep/base/file.h"
#include "lockstep/lockstep.h"

using namespace lockstep;

// The values of the white paper.
struct Experiment {
  std::string weights;
  std::string normalize = "imagenet";
  std::string network = "alexnet";
  std::string image_size = "227x227";
  int64_t workers = 1;
  int64_t mini_batch_size = 250;
  double learning_rate = 0.00125;
  int64_t max_epochs = 30;
  int64_t drop_period = 20;
  train::Execution execution = train::Execution::parallel;
  std::string output;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("weights", self.weights, "weights of the network, without which it starts from random ones");
    field("normalize", self.normalize, "how images were normalised when the weights were trained");
    field("network", self.network, "network that is trained");
    field("image-size", self.image_size, "height and width to which images are resized");
    field("workers", self.workers, "number of workers, N", at_least(1));
    field("mini-batch-size", self.mini_batch_size, "samples in a step for each worker", at_least(1));
    field("learning-rate", self.learning_rate, "learning rate for each worker", above(0));
    field("max-epochs", self.max_epochs, "passes over the images", at_least(1));
    field("drop-period", self.drop_period, "epochs after which the learning rate is divided by 10",
          at_least(1));
    field("execution", self.execution, "cpu, gpu, multi-gpu or parallel: on the session's pool");
    field("output", self.output, "run folder; empty: runs/white_paper-TIME");
  };
};

train::Options training_options(const Experiment& experiment) {
  // options = trainingOptions('sgdm', 'MiniBatchSize', 250*N, 'InitialLearnRate', 0.00125*N, 'MaxEpochs', 30,
  //     'LearnRateSchedule', 'piecewise', 'LearnRateDropFactor', 0.1, 'LearnRateDropPeriod', 20,
  //     'ExecutionEnvironment', 'multi-gpu');
  train::Options options{.weights = experiment.weights};
  options.mini_batch_size = experiment.mini_batch_size * experiment.workers;
  options.learning_rate = experiment.learning_rate * static_cast<double>(experiment.workers);
  options.max_epochs = experiment.max_epochs;
  options.lr_schedule = train::ScheduleKind::piecewise;
  options.lr_drop_factor = 0.1;
  options.lr_drop_period = experiment.drop_period;
  options.image_size = experiment.image_size;
  options.patience = 0;
  options.validation_split = 0;
  options.output = experiment.output;
  // layers = [net.Layers(1:end-3); fullyConnectedLayer(55, 'WeightLearnRateFactor', 10,
  // 'BiasLearnRateFactor', 20);
  //     softmaxLayer(); classificationLayer()];
  if (!experiment.weights.empty()) {
    options.head = train::Head::new_;
    options.normalize = experiment.normalize;
  }
  options.execution = experiment.execution;
  if (experiment.execution == train::Execution::cpu) options.workers = experiment.workers;
  return options;
}

void client(Session& session) {
  const auto& words = session.arguments();
  if (words.size() % 2 != 1)
    throw Error(ErrorCode::invalid_option,
                "the arguments are not a folder of images and pairs of an option and a value",
                "usage: white_paper FOLDER [--OPTION VALUE]...");
  Experiment experiment;
  for (size_t i = 1; i < words.size(); i += 2)
    set_field(experiment, words[i].starts_with("--") ? words[i].substr(2) : words[i], words[i + 1]);
  if (experiment.output.empty()) experiment.output = "runs/white_paper-" + std::to_string(std::time(nullptr));

  // imds = imageDatastore('s3://bucket/photos', 'LabelSource', 'foldernames', 'IncludeSubfolders', true);
  // [trainSet, testSet] = splitEachLabel(imds, 0.9, 'randomized');
  const auto [training, test] = data::ImageFolder(words.at(0)).split(0.9, {.seed = 1});
  if (experiment.execution == train::Execution::parallel) session.open_pool({.workers = experiment.workers});
  const train::Options options = training_options(experiment);

  // net = trainNetwork(trainSet, layers, options);
  const train::Result net = train::fit(
      session, {.dataset = training, .test = test, .network = nn::find_network(experiment.network)}, options);

  // YPredicted = classify(net, testSet);
  // accuracy = sum(YPredicted == testSet.Labels) / numel(YPredicted);
  const train::Model model = train::model_of_run(net.output);
  const auto predicted = train::predict(session, model, test, options);
  const double accuracy = train::evaluate(predicted, model.classes).accuracy;
  std::printf("accuracy %.3f on %lld images; mini-batch %lld, learning rate %g, %lld workers, weights %s\n",
              accuracy, static_cast<long long>(test.size()),
              static_cast<long long>(experiment.mini_batch_size * experiment.workers),
              double{options.learning_rate}, static_cast<long long>(experiment.workers),
              as_hex(hash_of(read_file(net.weights))).c_str());
}

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
