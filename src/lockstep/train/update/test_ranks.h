// For tests: ranks that are threads, and made-up gradients.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/group_memory.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/nn/network.h"

namespace lockstep::train::test {

// Runs work(comm) on a thread for each rank.
inline void on_ranks(int64_t ranks, const std::function<void(comm::Communicator& comm)>& work) {
  const auto memory = comm::GroupMemory::make(ranks);
  comm::ThreadGroup(ranks).run([&](Share share) {
    const auto comm = ranks == 1
                          ? comm::make_communicator()
                          : comm::make_communicator(memory, share.rank, {.timeout = std::chrono::minutes(1)});
    work(*comm);
  });
}

// The same with stand-ins for GPUs: values go over links between them.
inline void on_linked_ranks(int64_t ranks, const std::function<void(comm::Communicator& comm)>& work) {
  const comm::ThreadLinks links;
  on_ranks(ranks, [&](comm::Communicator& comm) {
    const std::shared_ptr<comm::Communicator> host(&comm, [](comm::Communicator*) {});
    work(*comm::make_gpu_communicator({host, links.link(comm.rank(), at::kCPU)}));
  });
}

// Held while LibTorch's generator draws, which all ranks share.
inline std::mutex drawing;

// Linear layers of these sizes, always with the same weights.
inline nn::Instance linear_layers(const std::vector<int64_t>& sizes) {
  const std::lock_guard lock(drawing);
  torch::manual_seed(1);
  torch::nn::Sequential layers;
  for (size_t i = 1; i < sizes.size(); ++i) layers->push_back(torch::nn::Linear(sizes[i - 1], sizes[i]));
  return {layers.ptr(), [layers](const at::Tensor& input) mutable { return layers->forward(input); }};
}

// One vector for each shard, the same at each call.
inline std::vector<at::Tensor> vectors_of(int64_t shards, int64_t elements, at::ScalarType type,
                                          uint64_t seed = 2) {
  const std::lock_guard lock(drawing);
  torch::manual_seed(seed);
  std::vector<at::Tensor> vectors;
  for (int64_t i = 0; i < shards; ++i) vectors.push_back(at::randn({elements}, type));
  return vectors;
}

// The sum over the shards [lo, hi) as docs/shards.md defines it.
inline at::Tensor tree_sum_of(const std::vector<at::Tensor>& vectors, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return vectors[static_cast<size_t>(lo)];
  const int64_t middle = lo + (hi - lo) / 2;
  return tree_sum_of(vectors, lo, middle) + tree_sum_of(vectors, middle, hi);
}

// Puts a vector into a node's buffer, or adds it.
inline std::function<void(const at::Tensor& buffer, bool add)> writer_of(const at::Tensor& vector) {
  return [vector](const at::Tensor& buffer, bool add) { add ? buffer.add_(vector) : buffer.copy_(vector); };
}

// The nodes of each of a rank's `threads` workers after they took their shards.
inline std::vector<comm::NodeStack> stacks_of(const std::vector<at::Tensor>& vectors, Share of_ranks,
                                              int64_t threads) {
  const at::Tensor& like = vectors.front();
  const auto shards = static_cast<int64_t>(vectors.size());
  std::vector<comm::NodeStack> stacks(static_cast<size_t>(threads),
                                      comm::NodeStack(like.numel(), like.scalar_type(), like.device()));
  for (int64_t thread = 0; thread < threads; ++thread) {
    comm::NodeStack& stack = stacks[static_cast<size_t>(thread)];
    const Range own =
        Deal{of_ranks.size, of_ranks.size * threads}.of_worker(shards, of_ranks.rank * threads + thread);
    stack.begin(shards);
    for (int64_t shard = own.begin; shard < own.end; ++shard)
      stack.take(single(shard), writer_of(vectors[static_cast<size_t>(shard)]));
  }
  return stacks;
}

inline std::vector<comm::Node> nodes_of(const std::vector<comm::NodeStack>& stacks) {
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks)
    nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  return nodes;
}

}  // namespace lockstep::train::test
