// A rank of ours in a gloo group of torch.distributed: sums and the largest value over ranks of both kinds, printed.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <ATen/Functions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/comm/internal/gloo_group.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/comm/launcher.h"

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

Store under(const char* prefix, const Store& store) { return c10::make_intrusive<c10d::PrefixStore>(prefix, store); }

double reduced(c10d::Backend& group, double value, c10d::ReduceOp how) {
  std::vector<at::Tensor> one{at::full({1000}, value)};
  group.allreduce(one, {.reduceOp = how})->wait();
  return one[0].min().item<double>() == one[0].max().item<double>() ? one[0][0].item<double>() : -1;
}

void take_part(const lockstep::comm::Launch& launch) {
  const Store store = c10::make_intrusive<c10d::TCPStore>(launch.address, c10d::TCPStoreOptions{.port = launch.port, .numWorkers = static_cast<size_t>(launch.size)});
  const std::string address = lockstep::comm::own_address_towards(launch.address, launch.port);
  const auto group = lockstep::comm::make_gloo_group(under("cpu/", under("0/", under("default_pg", store))), {launch.rank, launch.size}, address, std::chrono::seconds(60));
  const auto rank = static_cast<double>(launch.rank);
  const double sum = reduced(*group, rank + 1, c10d::ReduceOp::SUM);
  const double most = reduced(*group, rank, c10d::ReduceOp::MAX);
  std::printf("lockstep rank %lld: sum %g max %g\n", static_cast<long long>(launch.rank), sum, most);
}

}  // namespace

int main() {
  try {
    take_part(lockstep::comm::read_launch([](const char* name) { return std::getenv(name); }).value());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_rank: %s\n", error.what());
    return 1;
  } catch (const lockstep::comm::SocketFailure& failure) {
    std::fprintf(stderr, "gloo_rank: %s\n", failure.why.c_str());
    return 1;
  }
}
