// Measures the time to sum two workers' gradients: the tree of a training step with one shard per worker,
// against `a += b` by the same threads.
#include <array>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/measure/alignment.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/device/kernels.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kWorkers = 2;

struct AllReduceSize {
  int64_t bytes;
  int rounds;
};
constexpr std::array<AllReduceSize, 3> kAllReduceSizes{
    AllReduceSize{64 << 10, 1000}, AllReduceSize{4 << 20, 100}, AllReduceSize{int64_t{244} << 20, 5}};

/// Seconds per worker and round.
using Durations = std::array<std::vector<double>, kWorkers>;

/// Median over the rounds of the slower worker's time.
double middle(const Durations& durations) {
  std::vector<double> slower;
  for (size_t round = 0; round < durations[0].size(); ++round)
    slower.push_back(std::max(durations[0][round], durations[1][round]));
  return measure::median(slower);
}

struct Result {
  int64_t bytes = 0;
  double all_reduce = 0;  ///< seconds
  double add = 0;
};

class AllReduceMeasurement {
 public:
  explicit AllReduceMeasurement(int64_t bytes)
      : count_(bytes / static_cast<int64_t>(sizeof(float))),
        stacks_(kWorkers, comm::NodeStack(count_, at::kFloat, at::kCPU)) {}

  Result run(int rounds) {
    group_.run([&](Share share) {
      for (int round = -1; round < rounds; ++round) {  // round -1 warms up
        write_gradient(share);
        alignment_.wait();
        const double all_reduce = measure::seconds_of([&] { add_up(share); });
        check_sum();
        write_gradient(share);
        alignment_.wait();
        const double add = measure::seconds_of([&] { add_halves(share); });
        if (round < 0) continue;
        all_reduce_[static_cast<size_t>(share.rank)].push_back(all_reduce);
        add_[static_cast<size_t>(share.rank)].push_back(add);
      }
    });
    return {count_ * static_cast<int64_t>(sizeof(float)), middle(all_reduce_), middle(add_)};
  }

 private:
  comm::NodeStack& stack(int64_t rank) { return stacks_[static_cast<size_t>(rank)]; }

  // Both methods start with data that each worker has just written; half of it is in the other core's cache.
  void write_gradient(Share share) {
    group_.barrier();
    stack(share.rank).begin(kWorkers);
    stack(share.rank).take(single(share.rank), [&](const at::Tensor& buffer, bool) {
      buffer.fill_(static_cast<double>(share.rank + 1));
    });
  }

  void add_up(Share share) {
    group_.barrier([&] {  // run by one worker, as in a step
      nodes_.clear();
      for (const comm::NodeStack& one : stacks_)
        nodes_.insert(nodes_.end(), one.nodes().begin(), one.nodes().end());
    });
    // The tree over two shards is one addition, so its first node can serve as its scratch: both workers then
    // read the sum there.
    float* sum = nodes_.front().sum.data_ptr<float>();
    const Range own = part_of(divided_up(count_, train::kBlock), share.size, share.rank);
    for (int64_t block = own.begin; block < own.end; ++block) {
      const int64_t begin = block * train::kBlock;
      comm::finish_block<float>(nodes_, kWorkers, begin, std::min(train::kBlock, count_ - begin),
                                sum + begin);
    }
    group_.barrier();
  }

  // Not timed: the time ends when both workers may read. Reading an element that the other core has just
  // written takes as long as a barrier.
  void check_sum() const {
    const float* sum = nodes_.front().sum.const_data_ptr<float>();
    if (sum[0] != 3 || sum[count_ - 1] != 3)
      throw Error(ErrorCode::internal, "the sum of two workers' ones and twos is not three");
  }

  void add_halves(Share share) {
    const Range own = part_of(count_, share.size, share.rank);
    float* sum = stack(0).nodes().front().sum.data_ptr<float>() + own.begin;
    device::kernels<float>().add(sum, sum, stack(1).nodes().front().sum.const_data_ptr<float>() + own.begin,
                                 own.count());
  }

  const int64_t count_;
  comm::ThreadGroup group_{kWorkers};
  measure::Alignment alignment_{kWorkers};
  std::vector<comm::NodeStack> stacks_;
  std::vector<comm::Node> nodes_;
  Durations all_reduce_, add_;
};

}  // namespace

int run_bench_all_reduce(const Call& call, Console& console) {
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows{{"size", "all-reduce, us", "a += b, us"}};
  for (const AllReduceSize& size : kAllReduceSizes) {
    const Result result = AllReduceMeasurement(size.bytes).run(size.rounds);
    json.push_back(
        {{"bytes", result.bytes}, {"all_reduce_seconds", result.all_reduce}, {"add_seconds", result.add}});
    rows.push_back({as_bytes(result.bytes), fixed(result.all_reduce * 1e6, 2), fixed(result.add * 1e6, 2)});
  }
  console.print(settings_of<JsonOutput>(call).json ? json.dump(2) + "\n" : in_columns(rows, "lrr"));
  return 0;
}

}  // namespace lockstep::cli
