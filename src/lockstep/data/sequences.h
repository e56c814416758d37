// Sequences in memory: labelled series [C,T] of unequal length, and streams cut into consecutive pieces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

/// Maximum number of values in a file or folder of sequences: 8 GB.
inline constexpr int64_t kMostSequenceNumbers = int64_t{1} << 31;

/// One series. Its T is values.size() / channels.
struct Sequence {
  std::vector<float> values = {};  ///< [C,T], one channel after another
  int64_t label = -1;              ///< label of the whole series; -1: none
  std::vector<int64_t> time_step_labels =
      {};  ///< or T labels, one per time step, -1: none; either all sequences of a dataset have them or none
  std::string source = {};  ///< for messages; empty: "sequence 17", counted from 0
};

/// The values of a sample, [C,T]. Throws as Datastore::read_to does.
std::vector<float> read_values(const Datastore& store, int64_t index);

/// A dataset of sequences. Throws invalid_option naming the sequence whose size, label or values (all must be
/// finite) are invalid.
Dataset make_sequences(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences);

/// How stream_pieces cuts.
struct PieceOptions {
  int64_t time_steps = 100;  ///< length of a piece; the last one of a stream may be shorter
  int64_t slots = 1;         ///< number of parallel streams: the mini-batch size
};

/// Truncated backpropagation through time: a dataset whose mini-batches of `slots` samples, taken in order
/// (Shuffle::never), contain the next piece of `slots` streams. Sample k * slots + s is the k-th piece of
/// slot s, which plays streams s, s + slots, s + 2 slots, ... one after another; continues() is false for a
/// stream's first piece. A slot with no more pieces returns sequences of length 0 without labels. Each piece
/// has its stream's label, or the labels of its time steps. Copies the sequences. Throws invalid_option for
/// images.
Dataset stream_pieces(const Dataset& streams, const PieceOptions& options);

}  // namespace lockstep::data
