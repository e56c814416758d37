#include "lockstep/comm/internal/peer_watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/internal/beats.h"
#include "lockstep/comm/internal/group_layout.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

PeerWatch::PeerWatch(GroupMemory& memory, int64_t rank, const std::vector<pid_t>& processes)
    : memory_(memory), rank_(rank) {
  finished_ = ::eventfd(0, EFD_CLOEXEC);
  if (finished_ < 0) throw errno_error(errno, "watch", "other ranks");
  for (size_t other = 0; other < processes.size(); ++other) {
    if (static_cast<int64_t>(other) == rank || processes[other] == ::getpid()) continue;
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, processes[other], 0));
    const Peer peer{static_cast<int64_t>(other), processes[other], descriptor};
    if (descriptor >= 0) peers_.push_back(peer);
    if (descriptor < 0) lost(peer, "died");
  }
  beat();  // before anything can happen to this process: silence counts from the first sign of life
  thread_ = std::thread([this] { run(); });
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

void PeerWatch::lost(const Peer& peer, const char* how) {
  if (memory_.slot(peer.rank).left.load(std::memory_order_acquire) != 0) return;
  memory_.fail("rank " + std::to_string(peer.rank) + " (process " + std::to_string(peer.process) + ") on " +
               host_name() + " " + how);
}

void PeerWatch::run() {
  auto next = Clock::now() + kBeat;
  while (wait(static_cast<int>(std::max<int64_t>(
      0, std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count() + 1)))) {
    if (Clock::now() < next) continue;
    beat();
    next = after_beat(next);
  }
}

// False when this rank leaves.
bool PeerWatch::wait(int milliseconds) {
  std::vector<pollfd> waits{{finished_, POLLIN, 0}};
  for (const Peer& peer : peers_) waits.push_back({peer.descriptor, POLLIN, 0});
  if (::poll(waits.data(), waits.size(), milliseconds) < 0) return true;
  if (waits[0].revents != 0) return false;
  for (size_t i = peers_.size(); i > 0; --i) {
    if (waits[i].revents == 0) continue;
    lost(peers_[i - 1], "died");
    ::close(peers_[i - 1].descriptor);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  return true;
}

void PeerWatch::beat() {
  memory_.slot(rank_).beats.fetch_add(1, std::memory_order_relaxed);
  for (Peer& peer : peers_) {
    const uint32_t beats = memory_.slot(peer.rank).beats.load(std::memory_order_relaxed);
    peer.silent_beats = beats == peer.seen_beats && beats != 0 ? peer.silent_beats + 1 : 0;
    peer.seen_beats = beats;
    if (peer.silent_beats == kMostSilentBeats) lost(peer, "has given no sign of life for 4 s: it is stopped");
  }
}

}  // namespace lockstep::comm
