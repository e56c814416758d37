// Trains on long streams in pieces (truncated backpropagation through time). An LSTM that carries its state
// over remembers what it saw in an earlier piece. Where each piece is a separate sequence, this is lost.
//
//   build/stateful_lstm/stateful_lstm
//
// A stream is 60 time steps of noise. Its class is the sign of a mark at its beginning, and is predicted
// after each piece of 10 steps. Without memory only the first of six pieces can be classified, and the others
// are guesses: about (1 + 5/2) / 6 = 0.58. The last line:
//   accuracy with state carried over: 1.00; each piece by itself: 0.54
#include <cstdio>
#include <random>

#include "lockstep/lockstep.h"

using namespace lockstep;

constexpr int64_t kSteps = 60, kPiece = 10;

// Values [channels, time steps]: channel 0 has the mark, channel 1 the noise.
std::vector<data::Sequence> make_streams(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise;
  std::vector<data::Sequence> streams;
  for (int64_t i = 0; i < count; ++i) {
    data::Sequence stream{.values = std::vector<float>(2 * kSteps), .label = i % 2};
    stream.values[0] = stream.label == 1 ? 1 : -1;
    for (int64_t t = 0; t < kSteps; ++t)
      stream.values[static_cast<size_t>(kSteps + t)] = 0.3f * noise(random);
    streams.push_back(std::move(stream));
  }
  return streams;
}

// The same pieces, each as a separate sequence.
std::vector<data::Sequence> torn(const std::vector<data::Sequence>& streams) {
  std::vector<data::Sequence> pieces;
  for (const data::Sequence& stream : streams) {
    for (int64_t begin = 0; begin < kSteps; begin += kPiece) {
      data::Sequence& piece = pieces.emplace_back(data::Sequence{.label = stream.label});
      for (const int64_t row : {int64_t{0}, kSteps}) {
        const auto from = stream.values.begin() + row + begin;
        piece.values.insert(piece.values.end(), from, from + kPiece);
      }
    }
  }
  return pieces;
}

data::Dataset dataset(std::vector<data::Sequence> sequences) {
  return data::make_sequences(2, {"low", "high"}, std::move(sequences));
}

void client(Session&) {
  const nn::Network network =
      nn::read_network(Json::parse(R"([{"name": "lstm", "type": "lstm", "hidden": 16, "output": "last"},
                                     {"name": "fc", "type": "linear", "features": "classes"}])"),
                       "small_lstm");
  const auto streams = make_streams(120, 1), held_out = make_streams(40, 2);

  // 20 slots play streams side by side. A step takes the next 10 time steps of each slot, beginning with the
  // state that the step before left there (gradients stop at the piece's first step); at a stream's end the
  // slot's state begins with zeros again.
  train::TrainingRequest hidden_state;
  hidden_state.dataset = dataset(streams);
  hidden_state.validation = dataset(held_out);
  hidden_state.network = network;
  const train::Options options{.tbptt_length = kPiece,
                               .mini_batch_size = 20,
                               .max_epochs = 8,
                               .patience = 0,
                               .optimizer = train::OptimizerKind::adam,
                               .learning_rate = 0.02};
  const double with_state = train::fit(hidden_state, options).accuracy;

  train::TrainingRequest alone = hidden_state;
  alone.dataset = dataset(torn(streams));
  alone.validation = dataset(torn(held_out));
  train::Options whole = options;
  whole.tbptt_length = 0;
  const double without = train::fit(alone, whole).accuracy;

  std::printf("accuracy with state carried over: %.2f; each piece by itself: %.2f\n", with_state, without);
}

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
