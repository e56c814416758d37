// Deeplearning4j's tutorial on several devices, with its names. Two replicas of LeNet train in parallel, each
// on its own mini-batches of 128 images. After every three mini-batches, both replicas become their average.
//
//   scripts/build && cmake --install build/release --prefix ~/lockstep
//   cmake -S examples/parallel_wrapper -B build/parallel_wrapper -DCMAKE_PREFIX_PATH=~/lockstep
//   cmake --build build/parallel_wrapper
//   build/parallel_wrapper/parallel_wrapper mnist
//
// mnist is a folder with MNIST's four files, or with a folder of images for each class.
// Its last line, on MNIST: accuracy 0.976 after 211 averages of 2 replicas
#include <cstdio>

#include "lockstep/lockstep.h"

using namespace lockstep;

void client(Session& session) {
  if (session.arguments().size() != 1)
    throw Error(ErrorCode::invalid_option, "the arguments are not one folder of images",
                "usage: parallel_wrapper FOLDER");
  // The tutorial's LeNet: 20 and 50 filters of 5 x 5, each with max pooling, then 500 units; weights by
  // Xavier.
  const nn::Network lenet = nn::find_network("lenet");
  const data::Dataset images = data::open_source(session.arguments().front()).dataset;

  // The tutorial's NeuralNetConfiguration. Each replica has a mini-batch of this size, like a DataSet there.
  const train::Options configuration{
      .mini_batch_size = 128,
      .max_epochs = 3,
      .optimizer = train::OptimizerKind::sgdm,  // with nesterov: Updater.NESTEROVS
      .learning_rate = 0.01,
      .lr_schedule = train::ScheduleKind::constant,
      .nesterov = true,
      .weight_decay = 0.0005,
      .seed = 123};

  int averages = 0;
  train::ParallelWrapper wrapper =
      train::ParallelWrapper::Builder(lenet, configuration)
          .workers(2)              // replicas; they train on all cores, or one after the other on one core
          .prefetch_buffer(24)     // mini-batches read ahead
          .averaging_frequency(3)  // mini-batches of each replica between two averages
          .average_updaters(true)  // also averages the momentum
          .report_score_after_averaging(true)  // also reports the time of averaging
          .listener([&](const record::Event& event) {
            averages += event.kind == "average";
            return record::Control::go;  // or stop, as wrapper.stop_fit() does from another thread
          })
          .build();
  const train::Result result = wrapper.fit(images);  // a tenth of the images is held out for validation

  std::printf("accuracy %.3f after %d averages of 2 replicas\n", result.accuracy, averages);
}

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
