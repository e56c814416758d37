#include "lockstep/pool/internal/pool_head.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/comm/sealed_socket.h"
#include "lockstep/device/failure.h"
#include "lockstep/jobs/job_folder.h"
#include "lockstep/pool/internal/failure.h"
#include "lockstep/pool/internal/pipe_stream.h"
#include "lockstep/pool/internal/pool_job.h"
#include "lockstep/pool/internal/pool_place.h"
#include "lockstep/pool/internal/pool_request.h"
#include "lockstep/pool/internal/pool_unit.h"
#include "lockstep/pool/internal/process.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;
using HeadClock = std::chrono::steady_clock;

constexpr int kHeadTick = 200;  // milliseconds
constexpr std::chrono::seconds kHeadBeat{2}, kHelloTime{10}, kMostMemberSilence{10};
constexpr std::chrono::minutes kMostJoining{3};  // from the start of the job
constexpr size_t kMostHeadUnsent = size_t{64} << 20;
constexpr size_t kPoolSecretBytes = 32;

// A folder that is removed with the pool.
struct PoolFolder {
  fs::path path;
  explicit PoolFolder(const cluster::Profile& profile)
      : path((profile.job_folder.empty() ? jobs::jobs_folder() : fs::path(profile.job_folder)) / ".pools" /
             random_hex(8)) {}
  ~PoolFolder() {
    std::error_code none;
    fs::remove_all(path, none);
  }
  PoolFolder(const PoolFolder&) = delete;
  PoolFolder& operator=(const PoolFolder&) = delete;
};

// A connection of a member, or of somebody who says that he is one.
struct Caller {
  comm::SealedSocket socket;
  UnitReader reader{};
  HeadClock::time_point since = HeadClock::now(), heard = since;
  int64_t worker = -1;  ///< -1: it has not introduced itself
};

class PoolHead {
 public:
  PoolHead() : client_(Descriptor(::dup(STDIN_FILENO)), Descriptor(::dup(STDOUT_FILENO))) {}

  int run() {
    client_.put(kHeadMark);
    try {
      const std::optional<PoolRequest> request = read_request();
      if (!request) return 0;
      open(*request);
      while (turn()) {
      }
      end_members();
    } catch (...) {
      const Error error = device::error_of(std::current_exception());
      say({{"kind", "failed"}, {"error", json_of(error)}});
      flush_for(std::chrono::seconds(2));
    }
    return 0;
  }

 private:
  void say(const Json& word) { client_.put(word_text(kHeadUnit, 0, word)); }
  void state(const std::string& text) {
    if (text != std::exchange(last_state_, text)) say({{"kind", "state"}, {"text", text}});
  }

  std::optional<PoolRequest> read_request() {
    while (true) {
      pollfd wait{client_.reading(), POLLIN, 0};
      ::poll(&wait, 1, kHeadTick);
      if (!hear_client()) return std::nullopt;
      while (const auto unit = from_client_.next()) {
        const Json word = word_in(*unit);
        if (word["kind"] != "open") continue;
        PoolRequest request;
        read_json(word.at("request"), request, "a client's request for a pool");
        return request;
      }
    }
  }

  void open(const PoolRequest& request) {
    request_ = request;
    if (!request.build.empty() && request.build != build_of_program())
      throw Error(ErrorCode::cluster,
                  "the program " + quote(program_path()) + " on the cluster is another build",
                  "copy it there again, or build it there from the same sources with the same tools");
    listening_ = comm::listen_everywhere(port_);
    secret_ = random_hex(kPoolSecretBytes);
    meeting_.emplace("0.0.0.0");
    seats_.resize(
        static_cast<size_t>(request.launched > 0 ? request.launched : cluster::ranks_of(request.profile)));
    if (request.launched > 0) return say({{"kind", "place"}, {"place", to_json(place(0))}});
    state("submits a job");
    folder_.emplace(request.profile);
    submit(request.profile, 0);
  }

  PoolPlace place(int64_t first) const {
    const auto addresses = comm::addresses_of_machine(request_.profile.network_interface);
    return {
        .addresses = {addresses.begin(), addresses.end()}, .port = port_, .secret = secret_, .first = first};
  }

  void submit(const cluster::Profile& profile, int64_t first) {
    jobs_.push_back(std::make_unique<PoolJob>(profile, request_.program,
                                              folder_->path / std::to_string(++jobs_made_), place(first)));
  }

  // A job of one process in the place of a member that is gone.
  void replace(uint32_t worker) {
    if (request_.launched > 0)
      return client_.put(
          word_text(worker, 0, {{"kind", "left"}, {"text", "is gone, and nobody starts it again"}}));
    state("worker " + std::to_string(worker) + " is gone; submits a job to replace it");
    cluster::Profile profile = request_.profile;
    profile.nodes = profile.workers = 1;
    profile.gpus = std::min<int64_t>(profile.gpus, 1);
    submit(profile, worker);
  }

  // False at the end of the pool.
  bool turn() {
    wait();
    accept();
    if (!hear_client()) return false;
    while (const auto unit = from_client_.next()) {
      if (!obey(*unit)) return false;
    }
    hear_callers();
    follow_jobs();
    beat();
    for (Caller& caller : callers_) caller.socket.flush();
    return client_.flush();
  }

  void wait() {
    std::vector<pollfd> waits{{listening_.get(), POLLIN, 0}};
    const bool members_take = std::none_of(callers_.begin(), callers_.end(), [](const Caller& caller) {
      return caller.socket.unsent() > kMostHeadUnsent;
    });
    if (members_take) waits.push_back({client_.reading(), POLLIN, 0});
    if (client_.has_to_send()) waits.push_back({client_.writing(), POLLOUT, 0});
    for (const Caller& caller : callers_) {
      const bool client_takes = client_.unsent() < kMostHeadUnsent;
      const int events = (client_takes ? POLLIN : 0) | (caller.socket.has_to_send() ? POLLOUT : 0);
      waits.push_back({caller.socket.socket(), static_cast<short>(events), 0});
    }
    ::poll(waits.data(), waits.size(), kHeadTick);
  }

  bool hear_client() {
    const size_t had = from_client_.buffer().size();
    const bool is_there = client_.receive(from_client_.buffer());
    const auto now = HeadClock::now();
    if (from_client_.buffer().size() > had) client_heard_ = now;
    return is_there && now - client_heard_ < std::chrono::seconds(kMostClientSilence);
  }

  bool obey(const Unit& unit) {
    if (unit.worker == kHeadUnit) return word_in(unit)["kind"] != "close";
    if (unit.worker >= seats_.size()) return true;
    if (Caller* member = member_of(unit.worker)) {
      member->socket.put(unit_text(unit));
    } else if (unit.kind == UnitKind::word && word_in(unit)["kind"] == "start") {
      seats_[unit.worker].waiting_start = unit_text(unit);
      const bool is_coming = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
        return job->has(unit.worker) && !seats_[unit.worker].has_left;
      });
      if (!is_coming) replace(unit.worker);
      seats_[unit.worker].has_left = false;
    }
    return true;
  }

  Caller* member_of(uint32_t worker) {
    const auto found = std::find_if(callers_.begin(), callers_.end(), [&](const Caller& caller) {
      return caller.worker == static_cast<int64_t>(worker);
    });
    return found == callers_.end() ? nullptr : &*found;
  }

  void accept() {
    while (true) {
      pollfd wait{listening_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 0) <= 0) return;
      Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) return;
      callers_.push_back({{std::move(socket), comm::SealedSocket::Side::listener, secret_}});
    }
  }

  void hear_callers() {
    for (Caller& caller : callers_) {
      const bool is_there = caller.socket.receive(caller.reader.buffer());
      try {
        while (auto unit = caller.reader.next()) take(caller, *unit);
      } catch (const std::exception&) {
        drop(caller, "sent what cannot be read");
        continue;
      }
      if (!is_there) drop(caller, "was lost: the connection to its machine ended");
      const auto now = HeadClock::now();
      if (caller.worker < 0 && now - caller.since > kHelloTime) drop(caller, "");
      if (caller.worker >= 0 && now - caller.heard > kMostMemberSilence)
        drop(caller, "was lost: its machine is silent");
    }
    std::erase_if(callers_, [](const Caller& caller) { return caller.worker == kDropped; });
  }

  static constexpr int64_t kDropped = -2;
  void drop(Caller& caller, const std::string& why) {
    if (caller.worker >= 0) {
      Seat& seat = seats_[static_cast<size_t>(caller.worker)];
      seat.is_taken = false;
      seat.has_left = true;
      client_.put(word_text(static_cast<uint32_t>(caller.worker), 0, {{"kind", "left"}, {"text", why}}));
    }
    caller.worker = kDropped;
  }

  void take(Caller& caller, Unit& unit) {
    caller.heard = HeadClock::now();
    if (caller.worker >= 0) {
      unit.worker = static_cast<uint32_t>(caller.worker);
      client_.put(unit_text(unit));
      return;
    }
    Json word = word_in(unit);
    if (word["kind"] != "here" || unit.worker >= seats_.size() || seats_[unit.worker].is_taken)
      throw Error(ErrorCode::communication, "it is no member of this pool");
    Seat& seat = seats_[unit.worker];
    caller.worker = unit.worker;
    seat.is_taken = true;
    const int socket = caller.socket.socket();
    word["is_here"] = comm::own_address_of(socket) == comm::others_address_of(socket);
    word["meeting"] = {{"address", comm::own_address_of(socket)},
                       {"port", meeting_->port()},
                       {"secret", meeting_->secret()}};
    client_.put(word_text(unit.worker, 0, word));
    caller.socket.put(std::exchange(seat.waiting_start, {}));
    for (const auto& job : jobs_) {
      if (taken(job->first(), job->size()) == job->size()) job->is_here();
    }
    if (!is_open_ && taken(0, pool_size()) == pool_size()) {
      is_open_ = true;
      say({{"kind", "open"}});
    }
  }

  int64_t pool_size() const { return static_cast<int64_t>(seats_.size()); }
  int64_t taken(int64_t first, int64_t count) const {
    const auto begin = seats_.begin() + first;
    return std::count_if(begin, begin + count, [](const Seat& seat) { return seat.is_taken; });
  }

  void follow_jobs() {
    std::erase_if(jobs_, [&](const std::unique_ptr<PoolJob>& job) {
      const auto news = job->news();
      return news && !goes_on(*job, *news);
    });
  }

  // False if the job is over.
  bool goes_on(const PoolJob& job, const PoolJobNews& news) {
    if (news.refused) return lose(job, *news.refused);
    const std::string name = "job " + news.id;
    const std::string& reason = news.standing.reason;
    const std::string why = reason.empty() || reason == "None" ? "" : ": " + printable(reason);
    switch (news.standing.phase) {
      case cluster::Phase::queued:
        state(name + " waits in the queue" + why);
        return true;
      case cluster::Phase::running:
        return comes_in_time(job, name + " runs on " + printable(news.standing.nodes));
      case cluster::Phase::unknown:
        return true;
      default:
        break;
    }
    const bool is_cancelled = news.standing.phase == cluster::Phase::cancelled;
    return lose(job, Error(ErrorCode::cluster, name + (is_cancelled ? " was cancelled" : " ended") +
                                                   " before its workers were here" + why));
  }

  bool comes_in_time(const PoolJob& job, const std::string& runs) {
    state(runs + "; " + std::to_string(taken(job.first(), job.size())) + " of " + std::to_string(job.size()) +
          (job.size() == 1 ? " worker is here" : " workers are here"));
    const auto since = running_since_.emplace(&job, HeadClock::now()).first->second;
    if (HeadClock::now() - since < kMostJoining) return true;
    return lose(job, Error(ErrorCode::cluster, runs + ", but its workers do not reach this machine",
                           "the machines of the cluster must reach the network of the one with the "
                           "scheduler's commands; see docs/clusters.md"));
  }

  // The pool cannot open without its first job; a worker that is not replaced has not started.
  bool lose(const PoolJob& job, Error error) {
    if (const std::string log = job.last_words(); !log.empty())
      error.add_context("the log of the job: " + log);
    if (!is_open_) throw Error(error);
    for (int64_t worker = job.first(); worker < job.first() + job.size(); ++worker) {
      Seat& seat = seats_[static_cast<size_t>(worker)];
      if (seat.is_taken) continue;
      seat.has_left = true;
      client_.put(word_text(static_cast<uint32_t>(worker), 0,
                            {{"kind", "left"}, {"text", "is not replaced: " + error.message()}}));
    }
    running_since_.erase(&job);
    return false;
  }

  void beat() {
    if (HeadClock::now() - last_beat_ < kHeadBeat) return;
    last_beat_ = HeadClock::now();
    say({{"kind", "beat"}});
    for (Caller& caller : callers_) {
      if (caller.worker >= 0)
        caller.socket.put(word_text(static_cast<uint32_t>(caller.worker), 0, {{"kind", "beat"}}));
    }
  }

  void end_members() {
    for (Caller& caller : callers_) {
      if (caller.worker >= 0)
        caller.socket.put(word_text(static_cast<uint32_t>(caller.worker), 0, {{"kind", "close"}}));
    }
    flush_for(std::chrono::seconds(1));
  }

  void flush_for(std::chrono::seconds most) {
    const auto until = HeadClock::now() + most;
    const auto is_waiting = [&] {
      return client_.has_to_send() || std::any_of(callers_.begin(), callers_.end(), [](const Caller& caller) {
               return caller.socket.has_to_send();
             });
    };
    while (is_waiting() && HeadClock::now() < until) {
      for (Caller& caller : callers_) caller.socket.flush();
      if (!client_.flush()) return;
      if (is_waiting()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // A worker's place in the pool.
  struct Seat {
    bool is_taken = false;
    bool has_left = false;        ///< whoever was to take it does not come any more
    std::string waiting_start{};  ///< the client's order, until somebody takes it
  };

  PipeStream client_;
  UnitReader from_client_;
  HeadClock::time_point client_heard_ = HeadClock::now(), last_beat_ = client_heard_;
  std::string last_state_, secret_;
  PoolRequest request_;
  std::optional<PoolFolder> folder_;
  uint16_t port_ = 0;
  Descriptor listening_;
  std::optional<comm::MeetingPlace> meeting_;
  std::vector<Caller> callers_;
  std::vector<Seat> seats_;
  bool is_open_ = false;
  int64_t jobs_made_ = 0;
  std::map<const PoolJob*, HeadClock::time_point> running_since_;  ///< of jobs that are in jobs_
  std::vector<std::unique_ptr<PoolJob>> jobs_;                     ///< ended first
};

}  // namespace

int run_pool_head() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);  // the client's terminal sends it to the client, whose end this process sees
  return PoolHead().run();
}

}  // namespace lockstep::pool
