// A rank of ours in a gloo group of torch.distributed. Prints sums and the largest value over ranks of both
// kinds, and a linear layer after it was trained together with Python's DistributedDataParallel.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "lockstep/comm/internal/gloo_group.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/launch/launcher.h"

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

Store under(const char* prefix, const Store& store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

double reduced(c10d::Backend& group, double value, c10d::ReduceOp how) {
  std::vector<at::Tensor> one{at::full({1000}, value)};
  group.allreduce(one, {.reduceOp = how})->wait();
  return one[0].min().item<double>() == one[0].max().item<double>() ? one[0][0].item<double>() : -1;
}

// What DistributedDataParallel does in each rank: the same collectives in the same order.
void train_with_ddp(const c10::intrusive_ptr<c10d::ProcessGroup>& ranks) {
  const int64_t rank = ranks->getRank();
  std::vector<at::Tensor> learnables{
      (at::arange(32, at::kFloat) / 100).view({4, 8}).mul_(rank == 0 ? 1 : 0).requires_grad_(),
      at::zeros({4}).requires_grad_()};
  c10d::verify_params_across_processes(ranks, learnables, std::nullopt);
  c10d::broadcast_coalesced(ranks, std::vector<at::Tensor>{learnables[0].detach(), learnables[1].detach()},
                            /*buffer_size=*/250 << 20, /*rank=*/0);
  c10d::Reducer reducer(learnables, {{0, 1}}, ranks, {false, false}, c10d::kDefaultBucketBytesCap,
                        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false, {},
                        c10d::kDefaultFirstBucketBytes,
                        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, {});
  const at::Tensor input = (at::arange(48, at::kFloat) + 7 * rank).sin().view({6, 8}),
                   target = (at::arange(24, at::kFloat) + 3 * rank).cos().view({6, 4});
  for (int step = 0; step < 3; ++step) {
    reducer.prepare_for_forward();
    reducer.rebuild_buckets();
    const at::Tensor loss = (at::linear(input, learnables[0], learnables[1]) - target).square().mean();
    reducer.prepare_for_backward({});
    loss.backward();
    const at::NoGradGuard without_graph;
    for (at::Tensor& learnable : learnables) {
      learnable -= 0.1 * learnable.grad();
      learnable.mutable_grad().reset();
    }
  }
  std::printf("lockstep rank %lld: ddp", static_cast<long long>(rank));
  for (const at::Tensor& learnable : learnables)
    std::printf(" %.9g %.9g", learnable.sum().item<double>(), learnable.abs().max().item<double>());
  std::printf("\n");
}

void take_part(const lockstep::launch::Launch& launch) {
  const Store store = c10::make_intrusive<c10d::TCPStore>(
      launch.address,
      c10d::TCPStoreOptions{.port = launch.port, .numWorkers = static_cast<size_t>(launch.size)});
  const std::string address = lockstep::comm::own_address_towards(launch.address, launch.port);
  const auto group =
      lockstep::comm::make_gloo_group(under("cpu/", under("0/", under("default_pg", store))),
                                      {launch.rank, launch.size}, address, std::chrono::seconds(60));
  const auto rank = static_cast<double>(launch.rank);
  const double sum = reduced(*group, rank + 1, c10d::ReduceOp::SUM);
  const double most = reduced(*group, rank, c10d::ReduceOp::MAX);
  std::printf("lockstep rank %lld: sum %g max %g\n", static_cast<long long>(launch.rank), sum, most);
  const auto ranks = c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(launch.rank),
                                                             static_cast<int>(launch.size));
  ranks->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, group);
  ranks->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  train_with_ddp(ranks);
}

}  // namespace

int main() {
  try {
    take_part(lockstep::launch::read_launch([](const char* name) { return std::getenv(name); }).value());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_rank: %s\n", error.what());
    return 1;
  } catch (const lockstep::comm::SocketFailure& failure) {
    std::fprintf(stderr, "gloo_rank: %s\n", failure.why.c_str());
    return 1;
  }
}
