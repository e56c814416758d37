// fit, predict and layer_outputs on a session's pool of processes: what is sent to the workers, and the task
// that does it there (run.h lists it).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"
#include "lockstep/pool/session.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/custom/trained_network.h"

namespace lockstep::train {

/// How a pool trains and predicts: on options.workers workers. If some workers have a GPU, only those take
/// part, unless more workers are asked for than have one.
pool::CallOptions call_options(const pool::Pool& pool, const Options& options);

enum class OrderKind { fit, predict, layer };
constexpr std::array<const char*, 3> enum_names(OrderKind) { return {"fit", "predict", "layer"}; }

/// A data::SharedDataset: its path for the processes of this machine, its bytes for those of others.
struct SentDataset {
  std::string path{};
  at::Tensor bytes{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("path", self.path, "");
    field("bytes", self.bytes, "");
  };
};

/// A request to the workers.
struct ProcessOrder {
  OrderKind kind = OrderKind::fit;
  std::string options{};
  std::string folder{};
  SentDataset dataset{};
  SentDataset validation{};
  SentDataset test{};
  std::vector<std::string> given{};
  bool observed = false;
  bool heard = false;
  std::string layer{};
  TrainedNetwork network{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("kind", self.kind, "");
    field("options", self.options, "as JSON");
    field("folder", self.folder, "of the training data");
    field("dataset", self.dataset, "");
    field("validation", self.validation, "");
    field("test", self.test, "");
    field("given", self.given, "TrainingRequest::given");
    field("observed", self.observed, "the client has an observer");
    field("heard", self.heard, "the client has a listener");
    field("layer", self.layer, "");
    field("network", self.network, "for fit without weights; without a name: that of the options");
  };
};

struct ProcessAnswer {
  EndReason reason = EndReason::finished;
  double accuracy = 0;
  double best_accuracy = 0;
  double test_accuracy = 0;
  double loss = 0;
  int64_t steps = 0;
  int64_t epochs = 0;
  double seconds = 0;
  double images_per_second = 0;
  std::string output{};
  std::string weights{};
  at::Tensor values{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("reason", self.reason, "");
    field("accuracy", self.accuracy, "");
    field("best_accuracy", self.best_accuracy, "");
    field("test_accuracy", self.test_accuracy, "");
    field("loss", self.loss, "");
    field("steps", self.steps, "");
    field("epochs", self.epochs, "");
    field("seconds", self.seconds, "");
    field("images_per_second", self.images_per_second, "");
    field("output", self.output, "the run folder");
    field("weights", self.weights, "its weights");
    field("values", self.values, "the scores [samples,classes] of predict, or the outputs of the layer");
  };
};

/// Every rank of the group calls it.
///   own  the network if it is a C++ module
ProcessAnswer do_order(pool::Worker& worker, const ProcessOrder& order, const nn::Network& own = {});

Result fit_on_processes(const pool::Pool& pool, const TrainingRequest& request, const Options& options);
std::vector<Prediction> predict_on_processes(const pool::Pool& pool, const Model& model,
                                             const data::Dataset& dataset, const Options& options,
                                             const std::stop_token& stop);
at::Tensor layer_outputs_on_processes(const pool::Pool& pool, const Model& model, const std::string& layer,
                                      const data::Dataset& dataset, const Options& options,
                                      const std::stop_token& stop);

}  // namespace lockstep::train
