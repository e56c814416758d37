#include "lockstep/pool/internal/cluster_line.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/ssh.h"
#include "lockstep/device/failure.h"
#include "lockstep/launch/process.h"
#include "lockstep/pool/internal/cluster_lane.h"
#include "lockstep/pool/internal/failure.h"
#include "lockstep/pool/internal/pipe_stream.h"
#include "lockstep/pool/internal/pool_head.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/internal/pool_unit.h"

namespace lockstep::pool {
namespace {

using LineClock = std::chrono::steady_clock;

constexpr int kLineTick = 200;  // milliseconds
constexpr std::chrono::seconds kLineBeat{5}, kMostSilenceOfHead{60}, kHeadEnding{15};
constexpr size_t kMostLineUnsent = size_t{64} << 20;
constexpr const char* kLineLost = "was lost: the connection to the cluster ended";

}  // namespace

class ClusterLine::Thread {
  using Lane = ClusterLane;

 public:
  Thread(PoolRequest request, std::vector<std::string> environment, Tell tell)
      : tell_(std::move(tell)),
        environment_(std::move(environment)),
        folder_(std::filesystem::current_path().string()),
        lanes_(static_cast<size_t>(request.launched > 0 ? request.launched
                                                        : cluster::ranks_of(request.profile))),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw errno_error(errno, "make", "an event");
    login_ = std::exchange(request.profile.login, "");
    host_key_ = std::exchange(request.profile.host_key, "");
    start_head();
    request.program = program_path();
    if (!login_.empty()) request.build = build_of_program();
    head_->put(word_text(kHeadUnit, 0, {{"kind", "open"}, {"request", to_json(request)}}));
    thread_ = std::thread([this] { serve(); });
  }

  ~Thread() {
    close();
    launch::wait_for_end(process_);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  bool wait_until_open(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return is_open_ || failure_; });
    if (failure_) throw Error(*failure_);
    return is_open_;
  }

  PoolPlace place() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return place_ || failure_; });
    if (failure_) throw Error(*failure_);
    return *place_;
  }

  size_t first_missing() {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.is_here; }) -
        lanes_.begin());
  }

  size_t size() const { return lanes_.size(); }
  WorkerInfo info(size_t worker) {
    const std::lock_guard lock(mutex_);
    return lanes_[worker].info;
  }
  // Beside the head every address of it can be reached, but not by the others.
  Json meeting(size_t worker) {
    const std::lock_guard lock(mutex_);
    const auto other = std::find_if(lanes_.begin(), lanes_.end(),
                                    [](const Lane& lane) { return lane.is_here && !lane.is_at_head; });
    const Lane& lane = lanes_[worker];
    return lane.is_at_head && other != lanes_.end() ? other->meeting : lane.meeting;
  }

  StartedProcess start(size_t worker) {
    auto ends = socket_ends();
    auto errors = socket_ends();  // no pipe: writing to it must not end the program when nobody reads
    ::fcntl(errors[1].get(), F_SETFL, O_NONBLOCK);
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    Lane& lane = lanes_[worker];
    const auto end = std::make_shared<RemoteEnd>();
    lane.start += 1;
    lane.worker.emplace(Descriptor(::dup(ends[0].get())), std::move(ends[0]));
    lane.errors.emplace(Descriptor(), std::move(errors[0]));
    lane.end = end;
    lane.is_ending = false;
    put(word_text(static_cast<uint32_t>(worker), lane.start,
                  {{"kind", "start"}, {"environment", environment_}, {"folder", folder_}}));
    return {.id = 0,
            .name = "worker " + std::to_string(worker),
            .host = lane.info.host,
            .socket = std::move(ends[1]),
            .errors = std::move(errors[1]),
            .output = {},
            .kill =
                [this, worker, start = lane.start] {
                  const std::lock_guard inner(mutex_);
                  put(word_text(static_cast<uint32_t>(worker), start, {{"kind", "kill"}}));
                },
            .end = [end] { return end->wait(); },
            .is_waiting =
                [this, worker] {
                  const std::lock_guard inner(mutex_);
                  return !lanes_[worker].is_here;
                }};
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(is_closing_, true)) put(word_text(kHeadUnit, 0, {{"kind", "close"}}));
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void start_head() {
    auto ends = socket_ends();
    launch::Start start{.program = "/proc/self/exe",
                        .words = {program_path(), kHeadArgument},
                        .input = ends[1].get(),
                        .output = ends[1].get(),
                        .lifetime = launch::Lifetime::detached};
    launch::Pipe errors;
    if (!login_.empty()) {
      start.words = cluster::ssh_words({.login = login_,
                                        .words = std::move(start.words),
                                        .host_key = host_key_,
                                        .shares_connection = false});
      start.program = start.words.front();
      errors = launch::make_pipe();
      start.errors = errors.writing.get();
    }
    process_ = launch::start_process(start);
    ssh_errors_ = std::move(errors.reading);
    head_.emplace(Descriptor(::dup(ends[0].get())), std::move(ends[0]));
  }

  // With the lock.
  void put(const std::string& text) {
    if (!head_) return;
    head_->put(text);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  void serve() {
    auto heard = LineClock::now(), beat = heard;
    std::optional<LineClock::time_point> closing;
    while (true) {
      wait();
      const std::lock_guard lock(mutex_);
      const size_t had = from_head_.buffer().size();
      const bool is_there = head_->receive(from_head_.buffer());
      const auto now = LineClock::now();
      if (from_head_.buffer().size() > had) heard = now;
      try {
        while (head_has_begun()) {
          const auto unit = from_head_.next();
          if (!unit) break;
          take(*unit);
        }
      } catch (const std::exception&) {
        return end(device::error_of(std::current_exception()));
      }
      if (is_closing_ && !closing) closing = now;
      read_ssh_errors();
      if (!is_there || (closing && now - *closing > kHeadEnding)) return end(reason_of_end());
      if (now - heard > kMostSilenceOfHead)
        return end(Error(ErrorCode::communication, "the cluster has said nothing for a minute",
                         "is this machine still connected? open the pool again"));
      for (size_t worker = 0; worker < lanes_.size(); ++worker) carry(worker);
      if (now - beat > kLineBeat) {
        head_->put(word_text(kHeadUnit, 0, {{"kind", "beat"}}));
        beat = now;
      }
      head_->flush();
    }
  }

  void read_ssh_errors() {
    constexpr size_t kMost = 4096;
    if (!ssh_errors_) return;
    const bool goes_on = launch::read_available(ssh_errors_.get(), [&](std::string_view text) {
      if (is_open_) std::fputs(printable(std::string(text)).c_str(), stderr);
      if (ssh_said_.size() < kMost) ssh_said_ += text;
    });
    if (!goes_on) ssh_errors_ = Descriptor();
  }

  // Of a head that ends without a word.
  Error reason_of_end() const {
    if (login_.empty() || is_open_) return {ErrorCode::cluster, "the pool on the cluster has ended"};
    if (ssh_said_.find(program_path()) != std::string::npos)
      return {ErrorCode::cluster,
              "cannot start the program on " + login_ + ": " + printable(first_line(ssh_said_)),
              "copy it there, to the same path"};
    try {
      cluster::throw_ssh_error(login_, ssh_said_);
    } catch (const Error& error) {
      return error;
    }
  }

  void wait() {
    std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      waits.push_back(
          {head_->reading(), static_cast<short>(head_->has_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
      const int in = head_takes() ? POLLIN : 0;
      for (const Lane& lane : lanes_) {
        // A socket that has hung up wakes poll() even if nothing is asked of it, and is not read until the
        // head takes more.
        const int events = lane.worker && lane.worker->has_to_send() ? in | POLLOUT : in;
        if (lane.worker && events != 0)
          waits.push_back({lane.worker->reading(), static_cast<short>(events), 0});
        if (lane.errors && lane.errors->has_to_send()) waits.push_back({lane.errors->writing(), POLLOUT, 0});
      }
    }
    ::poll(waits.data(), waits.size(), kLineTick);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  }

  bool head_takes() const { return head_->unsent() < kMostLineUnsent; }

  // Before the head's first word is what the login node's shell prints, if it does.
  bool head_has_begun() {
    if (!has_begun_) {
      const size_t at = from_head_.buffer().find(kHeadMark);
      if (at == std::string::npos) return false;
      from_head_.buffer().erase(0, at + std::strlen(kHeadMark));
      has_begun_ = true;
    }
    return true;
  }

  void take(const Unit& unit) {
    if (unit.worker == kHeadUnit) return take_word_of_head(word_in(unit));
    if (unit.worker >= lanes_.size()) return;
    Lane& lane = lanes_[unit.worker];
    if (unit.kind == UnitKind::word) return take_word(lane, unit);
    if (unit.start != lane.start) return;
    if (unit.kind == UnitKind::bytes && lane.worker) lane.worker->put(unit.bytes);
    if (unit.kind == UnitKind::errors && lane.errors) lane.errors->put(unit.bytes);
    if (unit.kind == UnitKind::output) {
      [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, unit.bytes.data(), unit.bytes.size());
    }
  }

  void take_word_of_head(const Json& word) {
    const auto kind = word["kind"].get<std::string>();
    if (kind == "state") tell_(printable(word.value("text", "")));
    if (kind == "place") read_json(word.at("place"), place_.emplace(), "the place of a pool");
    if (kind == "open") is_open_ = true;
    if (kind == "failed") failure_ = error_of(word.at("error"));
    changed_.notify_all();
  }

  void take_word(Lane& lane, const Unit& unit) {
    const Json word = word_in(unit);
    const auto kind = word["kind"].get<std::string>();
    if (kind == "here") {
      read_json(word.at("info"), lane.info, "what a worker says of itself");
      lane.meeting = word.at("meeting");
      lane.is_at_head = word.at("is_here").get<bool>();
      lane.is_here = true;
    }
    if (kind == "note")
      std::fprintf(stderr, "warning: %s: %s\n", lane.info.host.c_str(),
                   printable(word.value("text", "")).c_str());
    const bool is_left = kind == "left";
    if (is_left) lane.is_here = false;
    if (is_left || (kind == "ended" && unit.start == lane.start)) over(lane, word.value("text", ""));
  }

  static void over(Lane& lane, const std::string& how) {
    if (lane.end) lane.end->set(printable(how));
    lane.is_ending = true;
  }

  void carry(size_t worker) {
    Lane& lane = lanes_[worker];
    if (!lane.worker) return;
    std::string bytes;
    const bool is_there = !head_takes() || lane.worker->receive(bytes);
    for (size_t at = 0; at < bytes.size(); at += kUnitPiece)
      head_->put(unit_text({.worker = static_cast<uint32_t>(worker),
                            .kind = UnitKind::bytes,
                            .start = lane.start,
                            .bytes = bytes.substr(at, kUnitPiece)}));
    const bool goes_on = lane.worker->flush() && is_there;
    lane.errors->flush();
    const bool is_passed_on = !lane.worker->has_to_send() && !lane.errors->has_to_send();
    if (goes_on && !(lane.is_ending && is_passed_on)) return;
    lane.worker.reset();
    lane.errors.reset();
  }

  void end(const Error& error) {
    if (!failure_) failure_ = error;
    for (Lane& lane : lanes_) {
      over(lane, kLineLost);
      lane.is_here = false;
      lane.worker.reset();
      lane.errors.reset();
    }
    head_.reset();
    changed_.notify_all();
  }

  const Tell tell_;
  const std::vector<std::string> environment_;
  const std::string folder_;
  std::string login_{};  ///< empty: the head is on this machine
  std::string host_key_{};
  Descriptor ssh_errors_{};
  std::string ssh_said_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  const Descriptor wake_;
  pid_t process_ = 0;
  std::optional<PipeStream> head_;
  UnitReader from_head_;
  std::optional<PoolPlace> place_;
  std::optional<Error> failure_;
  bool has_begun_ = false, is_open_ = false, is_closing_ = false;
  std::thread thread_;
};

ClusterLine::ClusterLine(PoolRequest request, std::vector<std::string> environment, Tell tell)
    : thread_(std::make_unique<Thread>(std::move(request), std::move(environment), std::move(tell))) {}
ClusterLine::~ClusterLine() = default;

bool ClusterLine::wait_until_open(std::chrono::milliseconds most) { return thread_->wait_until_open(most); }
PoolPlace ClusterLine::place() { return thread_->place(); }
size_t ClusterLine::first_missing() const { return thread_->first_missing(); }
WorkerInfo ClusterLine::info(size_t worker) const { return thread_->info(worker); }
size_t ClusterLine::size() const { return thread_->size(); }
StartedProcess ClusterLine::start(size_t worker) { return thread_->start(worker); }
Json ClusterLine::meeting(size_t worker) const { return thread_->meeting(worker); }
void ClusterLine::close() { thread_->close(); }

}  // namespace lockstep::pool
