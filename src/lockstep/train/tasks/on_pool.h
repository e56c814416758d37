// Training and prediction on the workers of a session's pool.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/pool/session.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

/// With --execution parallel, trains on all workers of the session's pool (or options.workers of them) as one
/// group, which does nothing else meanwhile; the pool is opened automatically. If some workers have a GPU,
/// only those train. With any other execution, the same as fit without a session. The weights are the same
/// for any number of workers, threads or processes. Processes, including a launcher's ranks, need
/// lockstep::run in main (run.h). They read an image folder themselves; the samples of another dataset are
/// read here once, into memory that all processes share. Observer, listener and progress are called here, in
/// the order of the run; while the observer decides, the run waits. A network that is a C++ module must also
/// be listed in main (network_task). Throws as fit does.
Result fit(pool::Session& session, const TrainingRequest& request, const Options& options);
Result fit(pool::Session& session, const nn::Network& network, const data::Dataset& dataset,
           const Options& options, record::Observer observer = {});

/// predict in the same way. The result is for evaluate.
std::vector<Prediction> predict(pool::Session& session, const Model& model, const data::Dataset& dataset,
                                const Options& options, std::stop_token stop = {});

/// layer_outputs (layer_outputs.h) in the same way.
at::Tensor layer_outputs(pool::Session& session, const Model& model, const std::string& layer,
                         const data::Dataset& dataset, const Options& options, std::stop_token stop = {});

}  // namespace lockstep::train
