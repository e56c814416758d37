#include "lockstep/pool/internal/launched_ranks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/local_socket.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/comm/rank_word.h"
#include "lockstep/launch/process.h"
#include "lockstep/pool/internal/pipe_stream.h"
#include "lockstep/pool/internal/pool_member.h"
#include "lockstep/pool/internal/process_worker.h"

namespace lockstep::pool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kWord = "pool";
constexpr const char* kSecretNeeded =
    "ranks on several machines need a secret: start them with lockstep run --hosts or lockstep batch, or set "
    "LOCKSTEP_SECRET for all of them";
constexpr std::chrono::seconds kLook{1};  // to see ranks that report why they cannot come
constexpr size_t kNameBytes = 16;

/// Whether something arrived before the deadline.
bool wait_for_input(int descriptor, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{descriptor, POLLIN, 0};
    const int got = ::poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) throw errno_error(errno, "wait for", "a rank");
    if (left <= 0) return false;
  }
}

/// The next frames; none if the other end is gone or the time is over.
std::vector<Frame> wait_for_frames(Channel& channel, Clock::time_point until) {
  while (true) {
    std::vector<Frame> frames = channel.receive();
    if (!frames.empty() || channel.closed() || !wait_for_input(channel.socket(), until)) return frames;
  }
}

std::string name_of_rank(size_t rank, pid_t process) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process) + ")";
}

// Rank 0 is the client, so another process is the member in its place.
pid_t start_member(const PoolPlace& place) {
  const auto ends = socket_ends();
  const pid_t process = launch::start_process({.program = "/proc/self/exe",
                                               .words = {program_path(), kMemberArgument, kPlaceOnInput},
                                               .input = ends[1].get()});
  const std::string text = to_json(place).dump();
  if (::send(ends[0].get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    throw errno_error(errno, "tell", "rank 0's worker where its pool is");
  return process;
}

Json word_of_rank_0(const launch::Launch& launch, const comm::Waiting& waiting) {
  Json word = Json::parse(comm::read_rank_word(launch, kWord, waiting), nullptr, /*allow_exceptions=*/false);
  if (!word.is_object())
    throw Error(ErrorCode::communication, "what rank 0 said of its socket cannot be read");
  return word;
}

Channel reach_rank_0(const launch::Launch& launch, const Json& word, pid_t& process) {
  Descriptor socket = connect_to_name(word.value("name", ""));
  if (!socket) {
    const std::string reason = "rank " + std::to_string(launch.rank) + " on " + host_name() +
                               " cannot reach rank 0 on " + word.value("host", "?") + ": " +
                               std::strerror(errno);
    comm::answer_rank_word(launch, kWord, reason);
    throw Error(ErrorCode::communication, reason, kSecretNeeded);
  }
  process = peer_of_same_user(socket);
  if (process == 0)
    throw Error(ErrorCode::communication,
                "who listens for rank " + std::to_string(launch.rank) + " is not a process of the same user",
                "the ranks of a pool must be one user's");
  return Channel(std::move(socket));
}

}  // namespace

LaunchedRanks::LaunchedRanks(const launch::Launch& launch, const comm::Waiting& waiting)
    : ranks_(static_cast<size_t>(launch.size)) {
  if (launch.local_size < launch.size && !launch.secret.empty()) {
    wait_on_several(launch, waiting);
  } else {
    wait_on_one_machine(launch, waiting);
  }
}

void LaunchedRanks::wait_on_several(const launch::Launch& launch, const comm::Waiting& waiting) {
  const auto tell = [&](const std::string& text) {
    if (waiting.tell) waiting.tell(text);
  };
  line_ =
      std::make_shared<ClusterLine>(PoolRequest{.launched = launch.size}, std::vector<std::string>{}, tell);
  const PoolPlace place = line_->place();
  member_ = start_member(place);
  const comm::RankWord word(launch, kWord, Json{{"place", to_json(place)}, {"host", host_name()}}.dump(),
                            waiting);
  comm::Patience patience(waiting);
  while (!line_->wait_until_open(kLook)) {
    word.keep();
    const auto missing = [&] {
      return "rank " + std::to_string(line_->first_missing()) + " of " + std::to_string(launch.size);
    };
    if (const auto reason = word.answer()) throw Error(ErrorCode::communication, *reason);
    if (patience.is_over())
      throw Error(ErrorCode::communication,
                  missing() + " did not come to rank 0 within " + patience.limit_text(),
                  "does the launcher start the same program on all ranks?");
    patience.tell([&] { return "waiting for " + missing(); });
  }
}

void LaunchedRanks::wait_on_one_machine(const launch::Launch& launch, const comm::Waiting& waiting) {
  ranks_.front().process = ::getpid();
  const std::string name = "lockstep-" + random_hex(kNameBytes);
  const Descriptor listening = listen_at_name(name);
  const comm::RankWord word(launch, kWord, Json{{"name", name}, {"host", host_name()}}.dump(), waiting);
  comm::Patience patience(waiting);
  auto next_look = Clock::now() + kLook;
  while (!all_here()) {
    if (wait_for_input(listening.get(), Clock::now() + std::min<Clock::duration>(patience.rest(), kLook)))
      admit(Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    if (Clock::now() < next_look) continue;
    next_look = Clock::now() + kLook;
    word.keep();
    if (const auto reason = word.answer()) throw Error(ErrorCode::communication, *reason, kSecretNeeded);
    const auto missing = [&] {
      return "rank " + std::to_string(first_missing()) + " of " + std::to_string(launch.size);
    };
    if (patience.is_over())
      throw Error(
          ErrorCode::communication,
          missing() + " did not come to rank 0 within " + patience.limit_text() + ", at " + word.place(),
          "does the launcher start the same program on all ranks?");
    patience.tell([&] { return "waiting for " + missing() + " at " + word.place(); });
  }
}

LaunchedRanks::~LaunchedRanks() {
  for (const Rank& rank : ranks_) {
    if (rank.channel == nullptr) continue;
    rank.channel->put({.header = {{"kind", "end"}}});
    rank.channel->flush();
  }
  line_ = nullptr;
  if (member_ > 0) launch::wait_for_end(member_);
}

int64_t LaunchedRanks::first_missing() const {
  return std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.process == 0; }) -
         ranks_.begin();
}

void LaunchedRanks::admit(Descriptor socket) {
  if (!socket) return;
  const pid_t process = peer_of_same_user(socket);
  if (process == 0) return;
  auto channel = std::make_unique<Channel>(std::move(socket));
  const std::vector<Frame> said = wait_for_frames(*channel, Clock::now() + std::chrono::seconds(10));
  if (said.empty()) return;  // it ended again
  const int64_t rank = said.front().header.value("rank", int64_t{0});
  if (rank < 1 || rank >= size() || ranks_[static_cast<size_t>(rank)].process != 0)
    throw Error(ErrorCode::communication, "process " + std::to_string(process) + " came as rank " +
                                              std::to_string(rank) + ", which is not missing");
  ranks_[static_cast<size_t>(rank)] = {.process = process, .channel = std::move(channel)};
}

PoolOptions LaunchedRanks::resolve(PoolOptions asked) const {
  if (asked.workers != 0 && asked.workers != size())
    throw Error(ErrorCode::invalid_option,
                "a pool of " + std::to_string(asked.workers) + " cannot be opened: the launcher started " +
                    std::to_string(size()) + (size() == 1 ? " rank" : " ranks") + ", which are its workers",
                "start " + std::to_string(asked.workers) + " ranks, or do not ask for a number of workers");
  if (!asked.environment.empty())
    throw Error(ErrorCode::invalid_option,
                "a pool of a launcher's ranks cannot have an environment of its own: the ranks run already",
                "let the launcher set it");
  asked.kind = PoolKind::processes;
  asked.workers = size();
  return asked;
}

StartedProcess LaunchedRanks::enlist(size_t rank) {
  if (rank == 0) return start_worker_process({});
  Rank& launched = ranks_[rank];
  auto ends = socket_ends();
  launched.channel->put({.header = {{"kind", "work"}}, .descriptor = std::move(ends[1])});
  if (!launched.channel->flush())
    throw Error(ErrorCode::communication,
                name_of_rank(rank, launched.process) + " on " + host_name() + " died");
  return {.id = launched.process,
          .name = name_of_rank(rank, launched.process),
          .host = host_name(),
          .socket = std::move(ends[0]),
          .errors = {},
          .output = {},
          .kill = [process = launched.process] { ::kill(process, SIGKILL); },
          .end = [] { return std::string("died"); },
          .can_be_replaced = false};
}

namespace {

void work_as_member(const Json& word, const launch::Launch& launch) {
  PoolPlace place;
  read_json(word.at("place"), place, "the place of a pool");
  if (run_pool_member(place, launch) != 0)
    throw Error(ErrorCode::cancelled, "rank 0 on " + word.value("host", "?") + " died");
}

}  // namespace

void work_under(const launch::Launch& launch, const TaskTable& tasks, const comm::Waiting& waiting) {
  const Json word = word_of_rank_0(launch, waiting);
  if (word.contains("place")) return work_as_member(word, launch);
  pid_t client = 0;
  Channel channel = reach_rank_0(launch, word, client);
  channel.put({.header = {{"kind", "rank"}, {"rank", launch.rank}}});
  channel.flush();
  const std::string farewell = name_of_rank(0, client) + " on " + host_name() + " died";
  while (true) {
    std::vector<Frame> frames = wait_for_frames(channel, Clock::time_point::max() - std::chrono::hours(1));
    if (frames.empty()) throw Error(ErrorCode::cancelled, farewell);
    for (Frame& frame : frames) {
      if (frame.header.value("kind", "") != "work") return;
      if (!frame.descriptor)
        throw Error(ErrorCode::io, "the socket of a pool did not reach rank " + std::to_string(launch.rank),
                    "raise the limit of open files (ulimit -n)");
      work_at(std::move(frame.descriptor), tasks, {.status = launch.lost_status, .words = farewell});
    }
  }
}

}  // namespace lockstep::pool
