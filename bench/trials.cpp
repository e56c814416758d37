// Lockstep's side of bench/trials: many trainings by parfeval in one process, which share the decoded images.
//
//   lockstep_bench_trials FOLDER OUTPUT WORKERS EPOCHS FIRST COUNT
//
// Trains trials FIRST to FIRST + COUNT - 1 and prints a line of JSON for each, in the order in which they
// end.
#include <cstdio>

#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/lockstep.h"

using namespace lockstep;
using namespace lockstep::pool;

namespace {

// The same in bench/trials_peer.py.
double rate_of(int64_t trial) { return 0.002 * static_cast<double>(1 + trial % 16); }
int64_t seed_of_trial(int64_t trial) { return trial / 16; }

std::string train_once(const data::Dataset& digits, const std::string& output, int64_t epochs,
                       int64_t trial) {
  train::Options options;
  options.mini_batch_size = 128;
  options.max_epochs = epochs;
  options.patience = 0;
  options.learning_rate = rate_of(trial);
  options.seed = seed_of_trial(trial);
  options.output = output + "/trial-" + std::to_string(trial);
  const train::Result result = train::fit(nn::find_network("digits_cnn"), digits, options);
  const uint64_t hash = hash_of(read_file(result.weights, int64_t{1} << 30));
  return Json{
      {"trial", trial}, {"accuracy", result.accuracy}, {"seconds", result.seconds}, {"weights", as_hex(hash)}}
      .dump();
}

void client(Session& session) {
  const auto& words = session.arguments();
  if (words.size() != 6)
    throw Error(ErrorCode::invalid_option, "six words are needed",
                "FOLDER OUTPUT WORKERS EPOCHS FIRST COUNT");
  const int64_t workers = std::stoll(words[2]), epochs = std::stoll(words[3]), first = std::stoll(words[4]),
                count = std::stoll(words[5]);
  const data::ImageFolder digits(words[0]);
  const Pool pool = session.open_pool({.workers = workers});
  std::vector<Future<std::string>> trials;
  for (int64_t trial = first; trial < first + count; ++trial) {
    trials.push_back(
        pool.parfeval([&, trial](Worker&) { return train_once(digits, words[1], epochs, trial); }));
  }
  while (const auto next = next_finished(trials)) {
    std::printf("%s\n", trials[*next].get().c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {}, client); }
