// For the contract test: a communicator that moves the test's tensors to a GPU.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Calls with tensors on a GPU, for tests that use the CPU.
class OnGpu : public Communicator {
 public:
  OnGpu(std::unique_ptr<Communicator> inner, at::Device device) : inner_(std::move(inner)), device_(device) {}
  Share share() const override { return inner_->share(); }
  std::string way() const override { return inner_->way(); }
  void barrier(const WaitOptions& wait) override { inner_->barrier(wait); }
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                  const WaitOptions& wait) override {
    const auto there = to_gpu(tensors);
    inner_->all_reduce(there, reduction, wait);
    back(there, tensors);
  }
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override {
    const auto there = to_gpu(tensors);
    inner_->broadcast(there, root, wait);
    back(there, tensors);
  }
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                   const WaitOptions& wait) override {
    std::vector<Node> there;
    for (const Node& node : nodes) there.push_back({node.shards, node.sum.to(device_)});
    auto all = inner_->exchange_nodes(there, shard_count, wait);
    for (Node& node : all) node.sum = node.sum.cpu();
    return all;
  }
  void abort(const Error& reason) override { inner_->abort(reason); }
  std::string failure() const override { return inner_->failure(); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override {
    auto parts = root == kEveryRank ? inner_->all_gather(tensor.to(device_), wait)
                                    : inner_->gather(tensor.to(device_), root, wait);
    for (at::Tensor& part : parts) part = part.cpu();
    return parts;
  }

 private:
  std::vector<at::Tensor> to_gpu(const std::vector<at::Tensor>& tensors) const {
    std::vector<at::Tensor> there;
    for (const at::Tensor& tensor : tensors) there.push_back(tensor.to(device_));
    return there;
  }
  static void back(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }
  const std::unique_ptr<Communicator> inner_;
  const at::Device device_;
};

}  // namespace lockstep::comm
