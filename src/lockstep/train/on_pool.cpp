#include "lockstep/train/on_pool.h"

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

// All ranks call `work`, which finds itself in a task of the group (on_worker.h).
template <class Work>
auto on_all_workers(pool::Session& session, const Options& options, const char* name, Work work) {
  const pool::Pool pool = session.pool();
  if (pool.kind() == pool::PoolKind::processes) {
    throw Error(ErrorCode::invalid_option, std::string(name) + " with --execution parallel cannot use a pool of processes, and one is open",
                "call " + std::string(name) + " in a task that all workers run, pool.spmd<f>(): it trains and predicts with the task's workers, whatever they are; or open a pool of threads where no launcher started the ranks");
  }
  return pool.spmd({.workers = options.workers, .name = name}, [&](pool::Worker&) { return work(); }).front();
}

}  // namespace

Result fit(pool::Session& session, const Job& job, const Options& options) {
  if (options.execution != Execution::parallel) return fit(job, options);
  return on_all_workers(session, options, "fit", [&] { return fit(job, options); });
}

Result fit(pool::Session& session, const nn::Network& network, const data::Dataset& dataset, const Options& options, io::Observer observer) {
  Job job;
  job.dataset = dataset;
  job.network = network;
  job.observer = std::move(observer);
  return fit(session, job, options);
}

std::vector<Prediction> predict(pool::Session& session, const Model& model, const data::Dataset& dataset, const Options& options, std::stop_token stop) {
  if (options.execution != Execution::parallel) return predict(model, dataset, options, std::move(stop));
  return on_all_workers(session, options, "predict", [&] { return predict(model, dataset, options, stop); });
}

}  // namespace lockstep::train
