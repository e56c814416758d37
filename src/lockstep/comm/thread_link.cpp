// The link between GPUs of one process: its ranks are threads, so a message is a tensor that the receiver
// copies to its own device.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/gpu_communicator.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kLook{5};  // between two calls of `check`

// The messages that the ranks have sent each other, by sender and receiver.
using Route = std::pair<int64_t, int64_t>;

// A GPU works on while its thread continues; another device must not read before the GPU has finished.
void finish_work(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

// The engine copies between two GPUs on the current stream of the sender's. Where this thread works beside
// the default stream of its own GPU, the copy shall not queue behind the work of the sender's default stream.
void copy_between(const at::Tensor& from, const at::Tensor& to) {
  const c10::impl::VirtualGuardImpl guard(to.device().type());
  if (from.device() == to.device() || guard.getStream(to.device()) == guard.getDefaultStream(to.device())) {
    to.copy_(from);
    return;
  }
  const c10::StreamGuard beside(guard.getStreamFromGlobalPool(from.device(), /*isHighPriority=*/true));
  to.copy_(from);
}

}  // namespace

struct ThreadLinks::Mailboxes {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Route, std::vector<at::Tensor>> sent;
};

class ThreadLinks::Link : public device::GpuLink {
 public:
  Link(std::shared_ptr<Mailboxes> boxes, int64_t rank, at::Device device)
      : boxes_(std::move(boxes)), rank_(rank), device_(device) {}

  at::Device device() const override { return device_; }
  std::string way() const override { return "copies between threads"; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Check& check) override {
    finish_work(device_);
    post(sends);
    std::map<int64_t, size_t> taken;
    for (const Message& message : receives) {
      const at::Tensor values = wait_for({message.peer, rank_}, taken[message.peer]++, check);
      if (values.sizes() != message.values.sizes())
        throw Error(ErrorCode::internal, "rank " + std::to_string(message.peer) + " sent " +
                                             c10::str(values.sizes()) + " where " +
                                             c10::str(message.values.sizes()) + " were expected");
      copy_between(values, message.values);
    }
    finish_work(device_);
    empty_boxes_from(taken);
    wait_until_taken(sends, check);  // the caller may write again to the tensors that it has sent
  }

 private:
  void post(const std::vector<Message>& sends) {
    const std::lock_guard lock(boxes_->mutex);
    for (const Message& message : sends) boxes_->sent[{rank_, message.peer}].push_back(message.values);
    boxes_->changed.notify_all();
  }

  at::Tensor wait_for(const Route& route, size_t place, const Check& check) {
    std::unique_lock lock(boxes_->mutex);
    const std::vector<at::Tensor>& box = boxes_->sent[route];
    wait(lock, check, [&] { return box.size() > place; });
    return box[place];
  }

  void empty_boxes_from(const std::map<int64_t, size_t>& peers) {
    const std::lock_guard lock(boxes_->mutex);
    for (const auto& [peer, count] : peers) boxes_->sent[{peer, rank_}].clear();
    boxes_->changed.notify_all();
  }

  void wait_until_taken(const std::vector<Message>& sends, const Check& check) {
    std::unique_lock lock(boxes_->mutex);
    wait(lock, check, [&] {
      return std::all_of(sends.begin(), sends.end(), [&](const Message& message) {
        return boxes_->sent[{rank_, message.peer}].empty();
      });
    });
  }

  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const Check& check, const Done& done) {
    while (!boxes_->changed.wait_for(lock, kLook, done)) {
      lock.unlock();
      check();
      lock.lock();
    }
  }

  const std::shared_ptr<Mailboxes> boxes_;
  const int64_t rank_;
  const at::Device device_;
};

ThreadLinks::ThreadLinks() : boxes_(std::make_shared<Mailboxes>()) {}

std::unique_ptr<device::GpuLink> ThreadLinks::link(int64_t rank, at::Device device) const {
  return std::make_unique<Link>(boxes_, rank, device);
}

}  // namespace lockstep::comm
