// Parts of the plan that follow from the options alone.
#pragma once

#include "lockstep/data/datastore.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The optimizer with its defaults filled in. The learning rate is that of one worker.
UpdatePlan resolve_update(const Options& options, data::SampleKind samples);

/// Gradients go to other ranks while backward makes more where nothing speaks against it: averaging mode
/// exchanges none in a step, fewer bits are made of whole gradients, and of a shard that may have to be
/// computed anew nothing must have been sent.
ExchangePlan resolve_exchange(const Options& options);

}  // namespace lockstep::train
