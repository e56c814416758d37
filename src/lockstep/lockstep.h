// Everything a program that trains needs.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/data/images_in_memory.h"
#include "lockstep/data/published_datasets.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/gpus.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/pretrained.h"
#include "lockstep/sweep/run.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/run_record.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/validate.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/inference/layer_outputs.h"
#include "lockstep/train/tasks/on_pool.h"
#include "lockstep/train/tasks/parallel_wrapper.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/tasks/run.h"
#include "lockstep/train/update/schedule.h"
#include "lockstep/train/custom/trained_network.h"
#include "lockstep/train/tasks/trial_progress.h"

// What programs write often.
namespace lockstep {

using comm::FlagReduction;
using comm::Reduction;
using device::gpus;
using device::GpuStatus;
using launch::StopSignals;
using pool::BatchJob;
using pool::BatchOptions;
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
