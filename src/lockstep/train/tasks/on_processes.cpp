#include "lockstep/train/tasks/on_processes.h"

#include <exception>
#include <mutex>
#include <algorithm>
#include <memory>
#include <optional>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/data/shared_dataset.h"
#include "lockstep/nn/layers.h"
#include "lockstep/pool/run.h"
#include "lockstep/train/tasks/client_line.h"
#include "lockstep/train/inference/layer_outputs.h"
#include "lockstep/train/tasks/run.h"
#include "lockstep/view/views.h"

namespace lockstep::train {
namespace {

// An event that is sent to the client.
struct SentEvent {
  std::string event{};
  bool observed = false;  // the rank waits for the observer's answer
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("event", self.event, "as a line of the event log");
    field("observed", self.observed, "");
  };
};

Options options_in(const ProcessOrder& order) {
  Options options;
  read_json(Json::parse(order.options), options, "the client's options");
  return options;
}

std::string text_of(Options options) {
  options.workers = 0;  // the ranks are the workers
  return lockstep::to_json(options).dump();
}

SentDataset sent(const data::SharedDataset& dataset, const pool::Pool& pool) {
  if (pool.is_on_this_machine()) return {.path = dataset.path()};
  const std::string bytes = dataset.bytes();
  const at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_data_ptr<uint8_t>());
  return {.bytes = tensor};
}

data::Dataset opened(const SentDataset& dataset) {
  if (!dataset.bytes.defined() || dataset.bytes.numel() == 0) return data::open_shared(dataset.path);
  const at::Tensor bytes = dataset.bytes.contiguous();
  return data::open_shared_bytes(
      {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()), static_cast<size_t>(bytes.numel())});
}

// For fit, which makes the weights itself.
TrainedNetwork as_order(const nn::Network& network) {
  TrainedNetwork order;
  if (network.empty()) return order;
  order.name = network.name();
  order.graph = network.spec().is_null() ? "" : network.spec().dump();
  return order;
}

void send(pool::Worker& worker, const record::Event& event, bool observed) {
  try {
    worker.send(SentEvent{record::to_line(event), observed});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;  // the call was stopped, so no one listens
  }
}

ProcessAnswer answer_of(const Result& result) {
  return {.reason = result.reason,
          .accuracy = result.accuracy,
          .best_accuracy = result.best_accuracy,
          .test_accuracy = result.test_accuracy,
          .loss = result.loss,
          .steps = result.steps,
          .epochs = result.epochs,
          .seconds = result.seconds,
          .images_per_second = result.images_per_second,
          .output = result.output.string(),
          .weights = result.weights.string()};
}

ProcessAnswer fit_here(pool::Worker& worker, const ProcessOrder& order, const nn::Network& own) {
  TrainingRequest request;
  request.folder = order.folder;
  request.dataset = opened(order.dataset);
  request.validation = opened(order.validation);
  request.test = opened(order.test);
  request.given = order.given;
  if (!order.network.name.empty())
    request.network = order.network.graph.empty()
                          ? own
                          : nn::read_network(Json::parse(order.network.graph), order.network.name);
  std::optional<RankLine> line;
  if (worker.rank() == 0) {
    line.emplace(worker);
    request.stop = line->stop();
    request.enough = line->enough();
    if (order.heard)
      request.listener = [&](const record::Event& event) { send(worker, event, /*observed=*/false); };
    if (order.observed)
      request.observer = [&](const record::Event& event) {
        send(worker, event, /*observed=*/true);
        return line->answer(worker.stop_token());
      };
  }
  return answer_of(fit(request, options_in(order)));
}

at::Tensor scores_of(const std::vector<Prediction>& predictions, int64_t classes) {
  const at::Tensor scores = at::empty({static_cast<int64_t>(predictions.size()), classes}, at::kDouble);
  double* row = scores.mutable_data_ptr<double>();
  for (const Prediction& one : predictions) row = std::copy(one.scores.begin(), one.scores.end(), row);
  return scores;
}

// The observer, the listener and the progress of a run, at the client.
class Listeners {
 public:
  Listeners(const TrainingRequest& request, const Options& options, ClientLine& line)
      : request_(request), line_(line) {
    if (request.console)
      view_ = view::progress(stdout, {.plot = options.plot,
                                      .timing = options.timing,
                                      .verbose = options.verbose,
                                      .averages = options.report_score_after_averaging});
  }
  bool any() const { return view_ != nullptr || request_.listener != nullptr; }
  // On the queue's thread. Rank 0 waits for an answer to each observed event, also after a failure, which
  // ends the run.
  void take(const SentEvent& sent) {
    const std::lock_guard lock(mutex_);
    record::Control answer = record::Control::stop;
    try {
      if (failure_ == nullptr) answer = show(sent);
    } catch (...) {
      failure_ = std::current_exception();
      line_.stop();
    }
    if (sent.observed) line_.answer(answer);
  }
  // After the run: throws what a listener has thrown.
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  void finish() {
    if (view_ != nullptr) view_->finish();
  }

 private:
  record::Control show(const SentEvent& sent) {
    const record::Event event = record::from_line(sent.event);
    if (sent.observed) return request_.observer(event);
    if (view_ != nullptr) view_->show(event);
    if (request_.listener) request_.listener(event);
    return record::Control::go;
  }

  const TrainingRequest& request_;
  ClientLine& line_;
  std::unique_ptr<view::View> view_;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
};

// The task for a C++ module has the module's name.
pool::Future<ProcessAnswer> start(const pool::Pool& pool, const ProcessOrder& order,
                                  const pool::CallOptions& options) {
  pool::CallOptions all = options;
  if (all.workers == 0) all.workers = pool.size();
  const bool is_module = !order.network.name.empty() && order.network.graph.empty();
  if (is_module) return pool.parfeval(pool::Task<do_builtin_order>{order.network.name}, order, all);
  return pool.parfeval(kOrderTask, order, all);
}

ProcessAnswer result_of(const pool::Future<ProcessAnswer>& future, const ProcessOrder& order) {
  try {
    return future.get();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found || error.message().find("there is no task") == std::string::npos)
      throw;
    const bool is_module = !order.network.name.empty() && order.network.graph.empty();
    throw Error(ErrorCode::invalid_option,
                is_module ? "the processes of the pool cannot make the network \"" + order.network.name +
                                "\", which is a C++ module"
                          : "the processes of the pool cannot train or predict for their client",
                is_module ? "list train::network_task<make>(\"" + order.network.name +
                                "\") where main calls lockstep::run(argc, argv, {tasks}, client)"
                          : "call lockstep::run in main, and not pool::run");
  }
}

at::Tensor values_of(const pool::Pool& pool, const ProcessOrder& order, const Options& options,
                     const std::stop_token& stop) {
  const auto future = start(pool, order, call_options(pool, options));
  const std::stop_callback cancel(stop, [&] { future.cancel(); });
  at::Tensor values = result_of(future, order).values;
  return values;
}

}  // namespace

ProcessAnswer do_order(pool::Worker& worker, const ProcessOrder& order, const nn::Network& own) {
  if (order.kind == OrderKind::fit) return fit_here(worker, order, own);
  const data::Dataset dataset = opened(order.dataset);
  const Model model = model_of(order.network, own);
  ProcessAnswer answer;
  if (order.kind == OrderKind::predict) {
    answer.values = scores_of(predict(model, dataset, options_in(order)), model.input.classes);
  } else {
    answer.values = layer_outputs(model, order.layer, dataset, options_in(order));
  }
  if (worker.rank() > 0) answer.values = at::Tensor();  // all ranks have the same; the client takes rank 0's
  return answer;
}

ProcessAnswer do_builtin_order(pool::Worker& worker, const ProcessOrder& order) {
  return do_order(worker, order);
}

int run_program(int argc, char** argv, pool::TaskTable tasks,
                const std::function<int(pool::Session&)>& client) {
  tasks.emplace_back(kOrderTask);
  return pool::run_program(argc, argv, tasks, client);
}

pool::CallOptions call_options(const pool::Pool& pool, const Options& options) {
  const std::vector<pool::WorkerInfo> workers = pool.workers();
  const int64_t with_gpu = std::count_if(workers.begin(), workers.end(),
                                         [](const pool::WorkerInfo& worker) { return worker.gpu >= 0; });
  if (with_gpu == 0 || with_gpu == pool.size() || options.workers > with_gpu)
    return {.workers = options.workers};
  return {.workers = options.workers > 0 ? options.workers : with_gpu, .on_gpus = true};
}

Result fit_on_processes(const pool::Pool& pool, const TrainingRequest& request, const Options& options) {
  if (request.stream != nullptr || request.standing != nullptr)
    throw Error(ErrorCode::invalid_option, "a ParallelWrapper cannot train on a pool of processes",
                "open a pool of threads, or leave out --execution parallel");
  const data::SharedDataset dataset(request.dataset), validation(request.validation), test(request.test);
  ClientLine line;
  Listeners listeners(request, options, line);
  const pool::DataQueue<SentEvent> queue([&](const SentEvent& sent) { listeners.take(sent); });
  const ProcessOrder order{.kind = OrderKind::fit,
                           .options = text_of(options),
                           .folder = request.folder.string(),
                           .dataset = sent(dataset, pool),
                           .validation = sent(validation, pool),
                           .test = sent(test, pool),
                           .given = request.given,
                           .observed = request.observer != nullptr,
                           .heard = listeners.any(),
                           .layer = {},
                           .network = as_order(request.network)};
  pool::CallOptions how = call_options(pool, options);
  how.queue = queue;
  const auto future = start(pool, order, how);
  line.connect(future);
  const std::stop_callback stop(request.stop, [&] { line.stop(); });
  const std::stop_callback enough(request.enough, [&] { line.enough(); });
  ProcessAnswer answer;
  try {
    answer = result_of(future, order);
  } catch (...) {
    listeners.rethrow();
    throw;
  }
  listeners.rethrow();
  listeners.finish();
  return {.reason = answer.reason,
          .accuracy = answer.accuracy,
          .best_accuracy = answer.best_accuracy,
          .test_accuracy = answer.test_accuracy,
          .loss = answer.loss,
          .steps = answer.steps,
          .epochs = answer.epochs,
          .seconds = answer.seconds,
          .images_per_second = answer.images_per_second,
          .output = answer.output,
          .weights = answer.weights};
}

std::vector<Prediction> predict_on_processes(const pool::Pool& pool, const Model& model,
                                             const data::Dataset& dataset, const Options& options,
                                             const std::stop_token& stop) {
  const data::SharedDataset shared(dataset);
  const ProcessOrder order{.kind = OrderKind::predict,
                           .options = text_of(options),
                           .dataset = sent(shared, pool),
                           .network = trained_network(model)};
  const at::Tensor scores = values_of(pool, order, options, stop);
  std::vector<Prediction> predictions(static_cast<size_t>(dataset.size()));
  for (size_t i = 0; i < predictions.size(); ++i) {
    const auto sample = static_cast<int64_t>(i);
    const double* row = scores.const_data_ptr<double>() + sample * scores.size(1);
    predictions[i] = {.source = dataset.store().source(sample),
                      .label = std::max_element(row, row + scores.size(1)) - row,
                      .target = dataset.store().label(sample),
                      .scores = {row, row + scores.size(1)}};
  }
  return predictions;
}

at::Tensor layer_outputs_on_processes(const pool::Pool& pool, const Model& model, const std::string& layer,
                                      const data::Dataset& dataset, const Options& options,
                                      const std::stop_token& stop) {
  const data::SharedDataset shared(dataset);
  const ProcessOrder order{.kind = OrderKind::layer,
                           .options = text_of(options),
                           .dataset = sent(shared, pool),
                           .layer = layer,
                           .network = trained_network(model)};
  return values_of(pool, order, options, stop);
}

}  // namespace lockstep::train
