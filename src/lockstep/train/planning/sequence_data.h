// What prepare() does where the data are sequences.
#pragma once

#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// The channels, the longest sequence and the padding. Throws invalid_option for options that are about
/// images.
data::ImageFormat sequence_format(const data::Dataset& train, const Options& options);

/// What a network is given; classes are the dataset's.
nn::NetworkInput sequence_input(const data::Dataset& train, const data::ImageFormat& format);

/// Sorts the training data by length where asked, and cuts all into pieces where asked; the plan then has the
/// slots as mini-batch size, and the new counts. Throws invalid_option for options that do not go together.
void arrange_sequences(data::Dataset& train, data::Dataset& validation, data::Dataset& test, Plan& plan,
                       const Options& options, const Plan* earlier);

/// The plan's lines about sequences.
std::vector<PlanLine> sequence_lines(const Plan& plan, const Options& options);

}  // namespace lockstep::train
