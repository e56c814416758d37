#include "lockstep/comm/internal/peer_watch.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/internal/group_layout.h"

namespace lockstep::comm {

PeerWatch::PeerWatch(GroupMemory& memory, int64_t rank, const std::vector<pid_t>& processes) : memory_(memory), rank_(rank) {
  finished_ = ::eventfd(0, EFD_CLOEXEC);
  if (finished_ < 0) throw errno_error(errno, "watch", "other ranks");
  for (size_t other = 0; other < processes.size(); ++other) {
    if (static_cast<int64_t>(other) == rank || processes[other] == ::getpid()) continue;
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, processes[other], 0));
    const Peer peer{static_cast<int64_t>(other), processes[other], descriptor};
    if (descriptor >= 0) peers_.push_back(peer);
    if (descriptor < 0) lost(peer);
  }
  thread_ = std::thread([this] { wait(); });
}

PeerWatch::~PeerWatch() {
  memory_.slot(rank_).left.store(1, std::memory_order_release);
  const uint64_t one = 1;
  while (::write(finished_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
  for (const Peer& peer : peers_) ::close(peer.descriptor);
  ::close(finished_);
}

void PeerWatch::lost(const Peer& peer) {
  if (memory_.slot(peer.rank).left.load(std::memory_order_acquire) != 0) return;
  memory_.fail("rank " + std::to_string(peer.rank) + " (process " + std::to_string(peer.process) + ") on " + host_name() + " died");
}

void PeerWatch::wait() {
  while (true) {
    std::vector<pollfd> waits{{finished_, POLLIN, 0}};
    for (const Peer& peer : peers_) waits.push_back({peer.descriptor, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    for (size_t i = peers_.size(); i > 0; --i) {
      if (waits[i].revents == 0) continue;
      lost(peers_[i - 1]);
      ::close(peers_[i - 1].descriptor);
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
  }
}

}  // namespace lockstep::comm
