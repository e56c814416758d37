#include "lockstep/train/run/fit.h"

#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/device/memory.h"
#include "lockstep/io/address.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/run/gpu_ranks.h"
#include "lockstep/train/run/one_run.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::train {
namespace {

// A resumed run stays on the GPUs that it had, unless others are asked for.
std::vector<int64_t> gpus_of(const TrainingRequest& request, const Options& asked) {
  Options options = asked;
  if (asked.resume && !asked.output.empty()) {
    if (const auto manifest = read_manifest(record::RunPaths{asked.output}.options()))
      options = resumed_options(asked, manifest->options, request.given, Change::allowed);
  }
  options = with_gpus(std::move(options), request.gpus);
  return resolve_placement(options, /*shards=*/1, machine_here(options)).devices;
}

Result train_on_gpus(const TrainingRequest& request, const Options& options,
                     const std::vector<int64_t>& gpus) {
  std::vector<at::Device> devices;
  for (const int64_t gpu : gpus) devices.push_back(open_device("cuda", gpu));
  const auto images = request.images != nullptr ? request.images : std::make_shared<data::ImageShare>();
  Result result;
  on_each_gpu(devices, [&](comm::Communicator& comm, std::shared_ptr<device::GpuLink> link) {
    TrainingRequest own = request;
    own.comm = &comm;
    own.rank_here = comm.rank();
    own.gpu_link = std::move(link);
    own.images = images;
    const Result of_rank = train_as_rank(own, options, comm);
    if (comm.rank() == 0) result = of_rank;
  });
  return result;
}

// A process may train many networks, one after the other and at the same time: the memory of an ended one is
// free for the others, and for other processes.
struct ReturnMemory {
  ~ReturnMemory() { device::give_freed_memory_back(); }
};

Result train_over(const TrainingRequest& request, const Options& options) {
  device::keep_freed_memory();
  const ReturnMemory at_end;
  // Before any of them is written to a file.
  for (const std::string& where : {request.folder.string(), options.validation, options.test})
    io::refuse_secrets(where);
  if (request.comm != nullptr) return train_as_rank(request, options, *request.comm);
  if (const std::vector<int64_t> gpus = gpus_of(request, options); gpus.size() > 1)
    return train_on_gpus(request, options, gpus);
  return train_as_rank(request, options, *comm::make_communicator());
}

}  // namespace

std::string stop_notice(bool can_kill) {
  return std::string("stopping: saving a checkpoint") + (can_kill ? "; press Ctrl-C again to kill" : "");
}

Result fit(const TrainingRequest& request, const Options& options) {
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return train_over(request, options);
  const EitherStop stop(request.stop, worker->stop_token());
  TrainingRequest here = request;
  here.stop = stop.token();
  const EitherStop enough(request.enough, worker->asked_token());
  here.enough = enough.token();
  if (here.images == nullptr) here.images = worker->shared<data::ImageShare>();
  if (worker->same_process()) {
    if (worker->size() > 1) here.gpus = gpus_of_group(*worker);
    return once_for_group(*worker, "fit", [&] { return train_over(here, options); });
  }
  here.comm = &worker->comm();
  here.ranks_here = worker->size();
  return train_over(here, options);
}

Result fit(const nn::Network& network, const data::Dataset& dataset, const Options& options,
           record::Observer observer, std::stop_token stop) {
  TrainingRequest request;
  request.dataset = dataset;
  request.network = network;
  request.observer = std::move(observer);
  request.stop = std::move(stop);
  return fit(request, options);
}

Plan plan(const TrainingRequest& request, const Options& options) {
  Options of_one_run = options;
  if (options.validation_folds > 0 && options.fold == 0) of_one_run.fold = 1;
  return prepare(request, of_one_run, /*dry=*/true).plan;
}

}  // namespace lockstep::train
