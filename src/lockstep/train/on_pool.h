// Training and prediction on the workers of a session's pool.
#pragma once

#include "lockstep/pool/session.h"
#include "lockstep/train/fit.h"
#include "lockstep/train/predict.h"

namespace lockstep::train {

/// With --execution parallel: on all workers of the session's pool (or options.workers of them), which is opened by itself if none is open; they
/// do nothing else meanwhile. With any other execution: fit as without a session. The weights are the same for any number of workers.
/// The pool has to be one of threads, for processes cannot be given data and networks that lie in memory: throws invalid_option for one of processes, where a task
/// that calls fit(job, options) on all workers does the same. Throws where fit throws.
Result fit(pool::Session& session, const Job& job, const Options& options);
Result fit(pool::Session& session, const nn::Network& network, const data::Dataset& dataset, const Options& options, io::Observer observer = {});

/// predict in the same way.
std::vector<Prediction> predict(pool::Session& session, const Model& model, const data::Dataset& dataset, const Options& options, std::stop_token stop = {});

}  // namespace lockstep::train
