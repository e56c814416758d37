// Training and prediction on the workers of a session's pool.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/pool/session.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

/// With --execution parallel: on all workers of the session's pool (or options.workers of them) as one group,
/// which is opened by itself if none is open; they do nothing else meanwhile. With any other execution: fit
/// as without a session. The weights are the same for any number of workers, threads or processes. Processes,
/// a launcher's ranks too, need lockstep::run in main (run.h). An image folder they read by themselves; the
/// samples of another dataset are read here once and lie in memory that all share. Observer, listener and
/// progress are called here, in the order of the run; while the observer decides, the run waits. A network
/// that is a C++ module has to be listed there too (network_task). Throws where fit throws.
Result fit(pool::Session& session, const TrainingRequest& request, const Options& options);
Result fit(pool::Session& session, const nn::Network& network, const data::Dataset& dataset,
           const Options& options, io::Observer observer = {});

/// predict in the same way; evaluate takes what it gives.
std::vector<Prediction> predict(pool::Session& session, const Model& model, const data::Dataset& dataset,
                                const Options& options, std::stop_token stop = {});

/// layer_outputs (layer_outputs.h) in the same way.
at::Tensor layer_outputs(pool::Session& session, const Model& model, const std::string& layer,
                         const data::Dataset& dataset, const Options& options, std::stop_token stop = {});

}  // namespace lockstep::train
