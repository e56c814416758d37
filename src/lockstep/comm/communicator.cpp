#include "lockstep/comm/communicator.h"

#include <mutex>

#include <ATen/Functions.h>

namespace lockstep::comm {
namespace {

/// The group of one: nothing to wait for and nothing to add.
class IdentityCommunicator : public Communicator {
 public:
  explicit IdentityCommunicator(CommunicatorOptions options) : options_(std::move(options)) {}

  Share share() const override { return {}; }
  std::string way() const override { return "one process"; }
  void barrier(const WaitOptions& wait) override { check(wait); }
  void all_reduce(const std::vector<at::Tensor>&, Reduction, const WaitOptions& wait) override {
    check(wait);
  }
  void broadcast(const std::vector<at::Tensor>&, int64_t root, const WaitOptions& wait) override {
    check(wait);
    check_root(root);
  }
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t,
                                   const WaitOptions& wait) override {
    check(wait);
    return nodes;
  }
  void abort(const Error& reason) override {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = "rank 0 failed: " + reason.message();
  }
  std::string failure() const override {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override {
    check(wait);
    if (root != kEveryRank) check_root(root);
    return {tensor.detach().clone()};
  }

 private:
  // A stop ends a group of one where it would end a larger one, so a loop stops at the same place.
  void check(const WaitOptions& wait) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty() && (options_.stop.stop_requested() || wait.stop.stop_requested()))
      reason_ = "rank 0 was stopped";
    if (!reason_.empty()) throw Error(ErrorCode::cancelled, reason_);
  }
  static void check_root(int64_t root) {
    if (root != 0)
      throw Error(ErrorCode::invalid_option, "there is no rank " + std::to_string(root) + " in a group of 1");
  }

  CommunicatorOptions options_;
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace

double Communicator::all_reduce(double value, Reduction reduction, const WaitOptions& wait) {
  const at::Tensor shared = at::full({1}, value, at::kDouble);
  all_reduce(std::vector<at::Tensor>{shared}, reduction, wait);
  return shared.item<double>();
}

bool Communicator::all_reduce(bool flag, FlagReduction reduction, const WaitOptions& wait) {
  const bool and_ = reduction == FlagReduction::and_;
  // All have the flag unless one does not.
  const at::Tensor shared = at::full({1}, and_ ? !flag : flag, at::kByte);
  all_reduce(std::vector<at::Tensor>{shared}, Reduction::max, wait);
  const bool any = shared.item<uint8_t>() != 0;
  return and_ ? !any : any;
}

at::Tensor Communicator::cat(const at::Tensor& tensor, int64_t dimension, const WaitOptions& wait) {
  return at::cat(all_gather(tensor, wait), dimension);
}

std::unique_ptr<Communicator> make_communicator(CommunicatorOptions options) {
  return std::make_unique<IdentityCommunicator>(std::move(options));
}

}  // namespace lockstep::comm
