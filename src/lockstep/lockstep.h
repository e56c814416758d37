// Everything a program that trains needs.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/gpus.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/validate.h"
#include "lockstep/train/fit.h"
#include "lockstep/train/layer_outputs.h"
#include "lockstep/train/on_pool.h"
#include "lockstep/train/parallel_wrapper.h"
#include "lockstep/train/predict.h"
#include "lockstep/train/run.h"
#include "lockstep/train/schedule.h"
#include "lockstep/train/trained_network.h"
#include "lockstep/train/trial_progress.h"

// What programs write often.
namespace lockstep {

using comm::FlagReduction;
using comm::Reduction;
using device::gpus;
using device::GpuStatus;
using pool::DataQueue;
using pool::Future;
using pool::FutureState;
using pool::next_finished;
using pool::Pool;
using pool::PoolKind;
using pool::Session;
using pool::task;
using pool::Worker;
using pool::WorkerInfo;
using train::run;

}  // namespace lockstep
