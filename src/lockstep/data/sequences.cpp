#include "lockstep/data/sequences.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/base/counted.h"
#include "lockstep/base/hash.h"
#include "lockstep/data/internal/padding.h"

namespace lockstep::data {
namespace {

int64_t steps_of(const Sequence& sequence, int64_t channels) {
  return static_cast<int64_t>(sequence.values.size()) / channels;
}

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw Error(ErrorCode::invalid_option, "sequence \"" + source + "\" " + why);
}

void check_label(const Sequence& sequence, int64_t label, size_t classes) {
  if (label < -1 || label >= static_cast<int64_t>(classes)) {
    refuse(sequence.source, "has the label " + std::to_string(label) +
                                (classes == 1 ? ", but there is " : ", but there are ") +
                                counted(static_cast<int64_t>(classes), "class"));
  }
}

void check(const Sequence& sequence, int64_t channels, size_t classes) {
  const int64_t steps = steps_of(sequence, channels);
  if (steps == 0 || steps * channels != static_cast<int64_t>(sequence.values.size())) {
    refuse(sequence.source, "has " + counted(std::ssize(sequence.values), "number") +
                                ", which cannot be divided into " + counted(channels, "channel") +
                                " of equal length");
  }
  if (!std::all_of(sequence.values.begin(), sequence.values.end(),
                   [](float value) { return std::isfinite(value); }))
    refuse(sequence.source, "has a number that is not finite");
  check_label(sequence, sequence.label, classes);
  for (const int64_t label : sequence.time_step_labels) check_label(sequence, label, classes);
}

class SequencesInMemory : public Datastore {
 public:
  SequencesInMemory(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences)
      : channels_(channels), classes_(std::move(classes)), sequences_(std::move(sequences)) {
    if (channels_ < 1)
      throw Error(ErrorCode::invalid_option,
                  "sequences cannot have " + std::to_string(channels_) + " channels");
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Sequence& sequence = sequences_[i];
      if (sequence.source.empty()) sequence.source = "sequence " + std::to_string(i);
      check(sequence, channels_, classes_.size());
      const size_t wanted = labels_time_steps() ? sequence.values.size() / static_cast<size_t>(channels_) : 0;
      if (sequence.time_step_labels.size() != wanted) {
        refuse(sequence.source, "has " + counted(std::ssize(sequence.time_step_labels), "label") +
                                    " of time steps instead of " + std::to_string(wanted));
      }
    }
  }
  int64_t size() const override { return static_cast<int64_t>(sequences_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return labels_time_steps() ? -1 : at(index).label; }
  std::string source(int64_t index) const override { return at(index).source; }
  ImageSize image_size(int64_t index) const override {
    return {channels_, 1, steps_of(at(index), channels_)};
  }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const auto bytes = std::as_bytes(std::span(at(index).values));
    std::memcpy(sink(image_size(index)).data(), bytes.data(), bytes.size());
  }
  bool in_memory() const override { return true; }
  SampleKind kind() const override { return SampleKind::sequence; }
  bool labels_time_steps() const override {
    return !sequences_.empty() && !sequences_.front().time_step_labels.empty();
  }
  std::span<const int64_t> time_step_labels(int64_t index) const override {
    return at(index).time_step_labels;
  }
  uint64_t listing_hash() const override {
    uint64_t hash = static_cast<uint64_t>(channels_);
    for (const Sequence& sequence : sequences_) {
      const int64_t label[]{sequence.label};
      hash =
          hash_of(std::as_bytes(std::span(sequence.values)), hash_of(std::as_bytes(std::span(label)), hash));
      hash = hash_of(std::as_bytes(std::span(sequence.time_step_labels)), hash);
    }
    for (const std::string& name : classes_) hash = hash_of(name, hash);
    return hash;
  }

 private:
  const Sequence& at(int64_t index) const { return sequences_.at(static_cast<size_t>(index)); }

  int64_t channels_;
  std::vector<std::string> classes_;
  std::vector<Sequence> sequences_;
};

struct Piece {
  int64_t stream = -1;  // -1: the slot has no more pieces
  int64_t begin = 0;
  int64_t steps = 0;
};

// The streams of each slot, one after another.
std::vector<std::vector<Piece>> pieces_by_slot(const Datastore& streams, const PieceOptions& options) {
  std::vector<std::vector<Piece>> slots(static_cast<size_t>(options.slots));
  for (int64_t stream = 0; stream < streams.size(); ++stream) {
    const int64_t steps = streams.image_size(stream).width;
    auto& slot = slots[static_cast<size_t>(stream % options.slots)];
    for (int64_t begin = 0; begin < steps; begin += options.time_steps)
      slot.push_back({stream, begin, std::min(options.time_steps, steps - begin)});
  }
  return slots;
}

class StreamPieces : public Datastore {
 public:
  StreamPieces(const Dataset& streams, const PieceOptions& options)
      : streams_(streams), slots_(options.slots) {
    const auto slots = pieces_by_slot(streams.store(), options);
    size_t longest = 0;
    for (const auto& slot : slots) longest = std::max(longest, slot.size());
    for (size_t k = 0; k < longest; ++k) {
      for (const auto& slot : slots) pieces_.push_back(k < slot.size() ? slot[k] : Piece{});
    }
    for (int64_t i = 0; i < streams.size(); ++i) {
      channels_ = streams.store().image_size(i).channels;
      values_.push_back(read_values(streams.store(), i));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  int64_t slots() const override { return slots_; }
  const std::vector<std::string>& classes() const override { return streams_.classes(); }
  int64_t label(int64_t index) const override {
    return at(index).stream < 0 ? -1 : streams_.store().label(at(index).stream);
  }
  std::string source(int64_t index) const override {
    const Piece& piece = at(index);
    return piece.stream < 0
               ? "no piece"
               : streams_.store().source(piece.stream) + ", steps " + std::to_string(piece.begin) + " to " +
                     std::to_string(piece.begin + piece.steps - 1);
  }
  ImageSize image_size(int64_t index) const override { return {channels_, 1, at(index).steps}; }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const Piece& piece = at(index);
    uint8_t* to = sink(image_size(index)).data();
    if (piece.stream < 0) return;
    const std::vector<float>& values = values_[static_cast<size_t>(piece.stream)];
    const int64_t length = static_cast<int64_t>(values.size()) / channels_;
    const size_t row = static_cast<size_t>(piece.steps) * sizeof(float);
    for (int64_t c = 0; c < channels_; ++c, to += row)
      std::memcpy(to, values.data() + c * length + piece.begin, row);
  }
  bool in_memory() const override { return true; }
  SampleKind kind() const override { return SampleKind::sequence; }
  bool labels_time_steps() const override { return streams_.store().labels_time_steps(); }
  std::span<const int64_t> time_step_labels(int64_t index) const override {
    const Piece& piece = at(index);
    if (piece.stream < 0 || !labels_time_steps()) return {};
    return streams_.store()
        .time_step_labels(piece.stream)
        .subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.steps));
  }
  bool continues(int64_t index) const override { return at(index).begin > 0; }
  uint64_t listing_hash() const override {
    return hash_of(std::as_bytes(std::span(pieces_)), streams_.store().listing_hash());
  }

 private:
  const Piece& at(int64_t index) const { return pieces_.at(static_cast<size_t>(index)); }

  Dataset streams_;
  int64_t slots_;
  int64_t channels_ = 1;
  std::vector<Piece> pieces_;
  std::vector<std::vector<float>> values_;  // one per stream, [C,T]
};

}  // namespace

std::vector<float> read_values(const Datastore& store, int64_t index) {
  std::vector<float> values;
  store.read_to(index, [&](const ImageSize& size) {
    values.resize(static_cast<size_t>(size.bytes()));
    return std::span(reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float));
  });
  return values;
}

Dataset make_sequences(int64_t channels, std::vector<std::string> classes, std::vector<Sequence> sequences) {
  return Dataset(std::make_shared<SequencesInMemory>(channels, std::move(classes), std::move(sequences)));
}

Dataset stream_pieces(const Dataset& streams, const PieceOptions& options) {
  if (options.time_steps < 1 || options.slots < 1)
    throw Error(ErrorCode::invalid_option,
                "stream_pieces needs at least one time step and at least one slot");
  if (streams.empty() || streams.store().kind() != SampleKind::sequence)
    throw Error(ErrorCode::invalid_option, "cannot cut images into pieces, only sequences");
  return Dataset(std::make_shared<StreamPieces>(streams, options));
}

void read_padded(const Datastore& store, int64_t index, PaddingSide side, std::span<uint8_t> destination) {
  thread_local std::vector<uint8_t> scratch;
  ImageSize read;
  store.read_to(index, [&](const ImageSize& size) {
    read = size;
    const auto bytes = static_cast<size_t>(size.bytes()) * sizeof(float);
    if (bytes == destination.size()) return destination;
    scratch.resize(bytes);
    return std::span(scratch);
  });
  const size_t row = static_cast<size_t>(read.width) * sizeof(float);
  const size_t padded = destination.size() / static_cast<size_t>(read.channels);
  if (row == padded) return;
  for (int64_t c = 0; c < read.channels; ++c) {
    uint8_t* to = destination.data() + static_cast<size_t>(c) * padded;
    std::memset(to, 0, padded);
    std::memcpy(to + (side == PaddingSide::left ? padded - row : 0),
                scratch.data() + static_cast<size_t>(c) * row, row);
  }
}

}  // namespace lockstep::data
