#include "lockstep/train/tasks/on_pool.h"

#include "lockstep/train/inference/layer_outputs.h"
#include "lockstep/train/tasks/on_processes.h"

namespace lockstep::train {
namespace {

// All ranks call `work`, which runs in a task of the group (on_worker.h).
template <class Work>
auto on_all_threads(const pool::Pool& pool, const Options& options, const char* name, Work work) {
  pool::CallOptions how = call_options(pool, options);
  how.name = name;
  return pool.spmd(how, [&](pool::Worker&) { return work(); }).front();
}

}  // namespace

Result fit(pool::Session& session, const TrainingRequest& request, const Options& options) {
  if (options.execution != Execution::parallel) return fit(request, options);
  const pool::Pool pool = session.pool();
  if (pool.kind() == pool::PoolKind::processes) return fit_on_processes(pool, request, options);
  return on_all_threads(pool, options, "fit", [&] { return fit(request, options); });
}

Result fit(pool::Session& session, const nn::Network& network, const data::Dataset& dataset,
           const Options& options, record::Observer observer) {
  TrainingRequest request;
  request.dataset = dataset;
  request.network = network;
  request.observer = std::move(observer);
  return fit(session, request, options);
}

std::vector<Prediction> predict(pool::Session& session, const Model& model, const data::Dataset& dataset,
                                const Options& options, std::stop_token stop) {
  if (options.execution != Execution::parallel) return predict(model, dataset, options, std::move(stop));
  const pool::Pool pool = session.pool();
  if (pool.kind() == pool::PoolKind::processes)
    return predict_on_processes(pool, model, dataset, options, stop);
  return on_all_threads(pool, options, "predict", [&] { return predict(model, dataset, options, stop); });
}

at::Tensor layer_outputs(pool::Session& session, const Model& model, const std::string& layer,
                         const data::Dataset& dataset, const Options& options, std::stop_token stop) {
  if (options.execution != Execution::parallel)
    return layer_outputs(model, layer, dataset, options, std::move(stop));
  const pool::Pool pool = session.pool();
  if (pool.kind() == pool::PoolKind::processes)
    return layer_outputs_on_processes(pool, model, layer, dataset, options, stop);
  return on_all_threads(pool, options, "layer_outputs",
                        [&] { return layer_outputs(model, layer, dataset, options, stop); });
}

}  // namespace lockstep::train
