// Measures the time that ranks take to add vectors: all_reduce in rank order, and the tree with one shard per
// rank. Started by a launcher.
#include <array>
#include <functional>
#include <vector>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/measure/alignment.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/rendezvous.h"

namespace lockstep::cli {
namespace {

struct RankSize {
  int64_t bytes;
  int rounds;
};
constexpr std::array<RankSize, 3> kRankSizes{RankSize{64 << 10, 500}, RankSize{4 << 20, 50},
                                             RankSize{int64_t{244} << 20, 3}};

/// Seconds of one round on the slowest rank. All ranks start at a barrier.
double seconds_of(comm::Communicator& comm, int rounds, const std::function<void()>& work) {
  work();  // allocates the memory
  comm.barrier();
  const double seconds = measure::seconds_of([&] {
    for (int round = 0; round < rounds; ++round) work();
  });
  return comm.all_reduce(seconds / rounds, comm::Reduction::max);
}

void check(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::internal, std::string(what) + " of the ranks' vectors is wrong");
}

}  // namespace

int run_bench_ranks(const Call& call, Console& console) {
  if (!call.launch)
    throw Error(ErrorCode::invalid_option, "bench-ranks measures several ranks",
                "start several, for example lockstep run -n 2 lockstep bench-ranks");
  const auto comm = comm::join_group(*call.launch, {}, joining_of(call, console));
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows{{"size", "all_reduce, us", "reduce_tree, us"}};
  for (const RankSize& size : kRankSizes) {
    const at::Tensor vector = at::zeros({size.bytes / static_cast<int64_t>(sizeof(float))});
    const double plain =
        seconds_of(*comm, size.rounds, [&] { comm->all_reduce({vector}, comm::Reduction::sum); });
    vector.fill_(static_cast<double>(comm->rank() + 1));
    const std::vector<comm::Node> nodes{{{comm->rank(), comm->rank() + 1}, vector}};
    at::Tensor sum;
    const double tree = seconds_of(*comm, size.rounds, [&] {
      sum.reset();
      sum = comm->reduce_tree(nodes, comm->size());
    });
    const auto total = static_cast<double>(comm->size() * (comm->size() + 1)) / 2;
    check(sum.min().item<double>() == total && sum.max().item<double>() == total, "the tree's sum");
    json.push_back({{"bytes", size.bytes},
                    {"all_reduce_seconds", plain},
                    {"reduce_tree_seconds", tree},
                    {"transport", comm->way()}});
    rows.push_back({as_bytes(size.bytes), fixed(plain * 1e6, 1), fixed(tree * 1e6, 1)});
  }
  if (comm->rank() == 0)
    console.print(settings_of<JsonOutput>(call).json ? json.dump() + "\n" : in_columns(rows, "lrr"));
  return 0;
}

}  // namespace lockstep::cli
