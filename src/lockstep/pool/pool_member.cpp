#include "lockstep/pool/internal/pool_member.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/comm/sealed_socket.h"
#include "lockstep/device/inventory.h"
#include "lockstep/pool/internal/pipe_stream.h"
#include "lockstep/pool/internal/pool_place.h"
#include "lockstep/pool/internal/pool_unit.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/worker_info.h"

namespace lockstep::pool {
namespace {

using MemberClock = std::chrono::steady_clock;

constexpr int kMemberTick = 200;  // milliseconds
constexpr std::chrono::seconds kMostHeadSilence{60};
constexpr std::chrono::seconds kMemberBeat{2};
constexpr size_t kMostMemberUnsent = size_t{64} << 20;

comm::SealedSocket reach_head(const PoolPlace& place) {
  std::string why = "its file names no address";
  for (const std::string& address : place.addresses) {
    try {
      return {comm::connect_to_address(address, static_cast<uint16_t>(place.port)),
              comm::SealedSocket::Side::caller, place.secret};
    } catch (const Error& error) {
      why = error.message();
    }
  }
  throw Error(
      ErrorCode::communication, "the head of the pool cannot be reached: " + why,
      "the machines of the cluster must reach the login node; set \"network-interface\" in the profile "
      "to the one that they share");
}

class PoolMember {
 public:
  PoolMember(comm::SealedSocket head, const launch::Launch& launch, int64_t worker)
      : head_(std::move(head)), launch_(launch), worker_number_(static_cast<uint32_t>(worker)) {}

  int run() {
    introduce();
    auto last_heard = MemberClock::now(), last_beat = last_heard;
    while (true) {
      wait();
      const size_t had = reader_.buffer().size();
      const bool is_there = head_.receive(reader_.buffer());
      if (reader_.buffer().size() > had) last_heard = MemberClock::now();
      while (auto unit = reader_.next()) obey(*unit);
      if (is_closing_) return end("");
      if (!is_there) return end(head_.refusal().empty() ? "its head has gone" : head_.refusal());
      if (MemberClock::now() - last_heard > kMostHeadSilence) return end("its head is silent");
      if (MemberClock::now() - last_beat > kMemberBeat) {
        say({{"kind", "beat"}});
        last_beat = MemberClock::now();
      }
      carry();
      head_.flush();
    }
  }

 private:
  void introduce() {
    const device::Inventory machine = device::inspect();
    const auto place = static_cast<size_t>(launch_.local_rank);
    const int64_t gpu = place < machine.gpus.size() ? machine.gpus[place].index : -1;
    say({{"kind", "here"}, {"info", to_json(make_worker_info(worker_number_, gpu))}});
  }

  void say(const Json& word) { head_.put(word_text(worker_number_, start_, word)); }

  void wait() {
    std::vector<pollfd> waits{
        {head_.socket(), static_cast<short>(head_.has_to_send() ? POLLIN | POLLOUT : POLLIN), 0}};
    if (worker_ && head_.unsent() < kMostMemberUnsent) {
      waits.push_back(
          {worker_->reading(), static_cast<short>(worker_->has_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
      for (const Descriptor* end : {&process_.output, &process_.errors}) {
        if (*end) waits.push_back({end->get(), POLLIN, 0});
      }
    }
    ::poll(waits.data(), waits.size(), kMemberTick);
  }

  void obey(const Unit& unit) {
    if (unit.kind == UnitKind::bytes) {
      if (worker_ && unit.start == start_) worker_->put(unit.bytes);
      return;
    }
    const Json word = word_in(unit);
    const auto kind = word["kind"].get<std::string>();
    if (kind == "start") begin(word, unit.start);
    if (kind == "kill" && unit.start == start_ && worker_) process_.kill();
    if (kind == "close") is_closing_ = true;
  }

  void begin(const Json& word, uint32_t start) {
    if (worker_) end_worker();
    start_ = start;
    // A folder that only the client's machine has: the worker begins in the pool's.
    if (const auto folder = word.value("folder", ""); !folder.empty() && ::chdir(folder.c_str()) != 0)
      say({{"kind", "note"}, {"text", "there is no folder " + quote(folder) + " on this machine"}});
    try {
      process_ =
          start_worker_process(word.value("environment", std::vector<std::string>{}), WorkerOutput::captured);
      worker_.emplace(Descriptor(::dup(process_.socket.get())), std::move(process_.socket));
    } catch (const Error& error) {
      say({{"kind", "ended"}, {"text", "was not started: " + error.message()}});
    }
  }

  void carry() {
    if (!worker_ || head_.unsent() >= kMostMemberUnsent) return;
    send_pieces(process_.output, UnitKind::output);
    send_pieces(process_.errors, UnitKind::errors);
    std::string bytes;
    const bool is_there = worker_->receive(bytes);
    send(UnitKind::bytes, bytes);
    if (!is_there || !worker_->flush()) end_worker();
  }

  // The last output comes before the word on how it ended.
  void end_worker() {
    const std::string how = process_.end();
    send_pieces(process_.output, UnitKind::output);
    send_pieces(process_.errors, UnitKind::errors);
    say({{"kind", "ended"}, {"text", how}});
    worker_.reset();
    process_ = {};
  }

  void send_pieces(Descriptor& from, UnitKind kind) {
    if (!from) return;
    const bool goes_on =
        launch::read_available(from.get(), [&](std::string_view text) { send(kind, std::string(text)); });
    if (!goes_on) from = Descriptor();
  }

  void send(UnitKind kind, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); at += kUnitPiece)
      head_.put(unit_text(
          {.worker = worker_number_, .kind = kind, .start = start_, .bytes = bytes.substr(at, kUnitPiece)}));
  }

  // The worker ends with the process that started it.
  int end(const std::string& why) {
    if (worker_) {
      process_.kill();
      process_.end();
    }
    if (why.empty()) return 0;
    std::fprintf(stderr, "a worker of a pool ends: %s\n", why.c_str());
    return 1;
  }

  comm::SealedSocket head_;
  const launch::Launch launch_;
  const uint32_t worker_number_;
  UnitReader reader_;
  StartedProcess process_;
  std::optional<PipeStream> worker_;
  uint32_t start_ = 0;
  bool is_closing_ = false;
};

}  // namespace

int run_pool_member(const PoolPlace& place, const launch::Launch& launch) {
  ::signal(SIGPIPE, SIG_IGN);
  return PoolMember(reach_head(place), launch, place.first + launch.rank).run();
}

int run_pool_member(const std::string& folder) {
  const auto variable = [](const char* name) { return std::getenv(name); };
  auto launch = launch::read_launch(variable);
  if (!launch && launch::is_in_slurm_step(variable)) launch.emplace();  // of a job with one worker
  if (!launch)
    throw Error(ErrorCode::invalid_option,
                std::string(kMemberArgument) + " is what a scheduler starts, and not to be typed");
  return run_pool_member(folder == kPlaceOnInput ? pool_place_on(STDIN_FILENO) : read_pool_place(folder),
                         *launch);
}

}  // namespace lockstep::pool
