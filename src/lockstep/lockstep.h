// Everything a program that trains needs.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/fit.h"
#include "lockstep/train/parallel_wrapper.h"
#include "lockstep/train/predict.h"
