// Prints the order that --sample-order distributed-sampler gives, for sampler_test.py: a line for each
// mini-batch. usage: sampler COUNT REPLICAS MINI_BATCH_OF_A_REPLICA SEED EPOCH SHUFFLE(0|1)
#include <array>
#include <cstdio>
#include <cstdlib>

#include "lockstep/data/order.h"

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  std::array<int64_t, 6> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::atoll(argv[i + 1]);
  const auto [count, replicas, each, seed, epoch, shuffle] = numbers;
  using lockstep::data::Shuffle;
  const lockstep::data::Order order{.seed = seed,
                                    .shuffle = shuffle != 0 ? Shuffle::every_epoch : Shuffle::never,
                                    .sampler_replicas = replicas,
                                    .replica_mini_batch_size = each};
  const std::vector<int64_t> samples = order.of_epoch(count, epoch);
  for (size_t i = 0; i < samples.size(); ++i)
    std::printf("%lld%c", static_cast<long long>(samples[i]),
                (i + 1) % static_cast<size_t>(each * replicas) == 0 || i + 1 == samples.size() ? '\n' : ' ');
}
