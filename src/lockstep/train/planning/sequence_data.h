// Sequences for training: their format, their order, and their pieces (--tbptt-length).
#pragma once

#include <cstdint>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/planning/open_data.h"

namespace lockstep::train {

/// The channels, the length of the longest sequence, and the padding.
data::ImageFormat sequence_format(const data::Dataset& train, data::PaddingSide padding);

/// The input of a network for these samples, sequences or images; the classes are the dataset's.
nn::NetworkInput network_input(const data::Dataset& train, const data::ImageFormat& format);

/// The same sequences, the shortest first. Sequences of equal length keep their order.
data::Dataset sorted_by_length(const data::Dataset& dataset);

/// Cuts the sequences of all datasets into pieces of `time_steps` time steps, in `slots` slots
/// (data::stream_pieces).
void cut_into_pieces(Datasets& sets, int64_t time_steps, int64_t slots);

}  // namespace lockstep::train
