// Parts of the plan that follow from the options and from earlier parts of the plan.
#pragma once

#include <cstdint>

#include "lockstep/data/datastore.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// What is known of the samples before they are opened.
DataPlan resolve_data(const Options& options);

/// The arithmetic of a step. The mini-batch size and the shards are resolved later (mini_batch.h);
/// --precision auto is 32-true for now.
StepPlan resolve_step(const Options& options);

/// The optimizer with its defaults filled in. The learning rate is that of one worker.
UpdatePlan resolve_update(const Options& options, data::SampleKind samples);

/// Gradients go to other ranks during backward, except where that is impossible: averaging mode exchanges
/// none in a step; compressed gradients need the whole gradient; and a step that may be computed again must
/// not have sent anything. GPUs do not do it either, which is known later.
ExchangePlan resolve_exchange(const Options& options);

/// The number of mini-batches that are read ahead, over all replicas.
int64_t resolve_read_ahead(const Options& options);

/// When the run ends and when it validates.
///   data, step    resolved
///   mini_batches  of a stream; 0: unknown
LengthPlan resolve_length(const Options& options, const DataPlan& data, const StepPlan& step,
                          int64_t mini_batches);

/// UpdatePlan::rate_test_steps.
int64_t resolve_rate_test(const Options& options, const LengthPlan& length);

/// What is written during the run.
RecordPlan resolve_record(const Options& options, int64_t steps_per_epoch);

}  // namespace lockstep::train
