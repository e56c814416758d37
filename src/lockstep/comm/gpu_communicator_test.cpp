// What the communicator of GPUs sends over the host, with threads in the place of GPUs.
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/test_ranks.h"

namespace lockstep::comm {
namespace {

using namespace test;

// A host's line that counts what goes over it.
class CountedLine : public Communicator {
 public:
  explicit CountedLine(std::unique_ptr<Communicator> line) : line_(std::move(line)) {}
  Share share() const override { return line_->share(); }
  std::string way() const override { return line_->way(); }
  void barrier(const WaitOptions& wait) override { line_->barrier(wait); }
  void all_reduce(const std::vector<at::Tensor>& all, Reduction reduction, const WaitOptions& wait) override {
    line_->all_reduce(counted(all), reduction, wait);
  }
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override {
    line_->broadcast(counted(tensors), root, wait);
  }
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shards,
                                   const WaitOptions& wait) override {
    for (const Node& node : nodes) counted({node.sum});
    return line_->exchange_nodes(nodes, shards, wait);
  }
  void abort(const Error& reason) override { line_->abort(reason); }
  std::string failure() const override { return line_->failure(); }
  size_t bytes() const { return bytes_; }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t, const WaitOptions& wait) override {
    return line_->all_gather(counted({tensor}).front(), wait);
  }

 private:
  std::vector<at::Tensor> counted(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) bytes_ += tensor.nbytes();
    return tensors;
  }
  const std::unique_ptr<Communicator> line_;
  size_t bytes_ = 0;
};

// One of the three has no shard.
TEST(GpuCommunicator, SendsNothingButWordsOverTheHost) {
  constexpr int64_t kElements = 100'000;
  const auto memory = GroupMemory::make(3);
  const ThreadLinks links;
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto host = std::make_shared<CountedLine>(make_communicator(memory, rank));
      const auto comm = make_gpu_communicator({.host = host, .link = links.link(rank, at::kCPU)});
      std::vector<Node> nodes;
      if (rank > 0) nodes.push_back({single(rank - 1), values_of(rank, kElements, at::kFloat)});
      const at::Tensor sum = comm->reduce_tree(nodes, 2);
      EXPECT_TRUE(at::equal(sum, values_of(1, kElements, at::kFloat) + values_of(2, kElements, at::kFloat)));
      comm->all_reduce({sum}, Reduction::sum);
      comm->broadcast({sum}, 1);
      EXPECT_EQ(comm->gather(sum, 0).size(), rank == 0 ? 3U : 0U);
      EXPECT_LT(host->bytes(), 2000U);
    });
  }
}

}  // namespace
}  // namespace lockstep::comm
