// Workers that are processes. The crew's thread starts them and does all communication with them. Only this
// thread touches the members; other threads pass it commands.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/text.h"
#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/internal/crew.h"
#include "lockstep/pool/internal/failure.h"
#include "lockstep/pool/internal/process.h"

namespace lockstep::pool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
// If more time than this passes between two looks, the client itself did not run (Ctrl-Z, a busy machine), so
// this silence is not a worker's.
constexpr milliseconds kMostTick{250};
constexpr milliseconds kClosingTime{2000};
constexpr int64_t kMostFailedStarts = 3;

struct Member {
  uint64_t start = 0;  ///< which of the crew's starts it is; 0: none yet
  StartedProcess process{};
  std::unique_ptr<Channel> channel;
  LastWords last_words{};
  bool is_ready = false;
  uint64_t received = 0;  ///< bytes at the last look
  Clock::duration silent{0};
  int64_t failed_starts = 0;  ///< in a row
  int64_t call = -1;
  bool gone = false;  ///< not started again
  std::string place() const { return process.name + " on " + process.host; }
};

class ProcessCrew : public Crew {
 public:
  ProcessCrew(const PoolOptions& options, std::vector<int64_t> gpus, ProcessSource source,
              CrewListener& listener)
      : Crew(std::move(gpus)),
        listener_(listener),
        options_(options),
        source_(std::move(source)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        members_(workers()),
        starts_(workers()),
        processes_(workers()) {
    if (!wake_) throw errno_error(errno, "make", "an event");
    thread_ = std::thread([this] { serve(); });
  }
  ~ProcessCrew() override { close(); }

  void prepare(Work& work) const override;
  void begin(size_t worker, Order order) override;
  void stop(size_t worker, int64_t call, StopCause cause) override {
    tell(worker, {{"kind", "stop"}, {"call", call}, {"cancelled", cause == StopCause::cancelled}});
  }
  void ask_to_stop(size_t worker, int64_t call) override {
    tell(worker, {{"kind", "ask_to_stop"}, {"call", call}});
  }
  void say(size_t worker, int64_t call, std::string word) override { tell(worker, word_header(call, word)); }
  void credit(size_t worker, int64_t call) override { tell(worker, {{"kind", "credit"}, {"call", call}}); }
  WorkerInfo info(size_t worker) const override;
  bool shares_memory() const override { return source_.meeting == nullptr; }
  bool is_worker_thread() const override { return false; }
  void close() override;

 private:
  struct Command {
    size_t worker = 0;
    Frame frame;
    int64_t begins = -1;  ///< the call that begins on the worker with this command
    uint64_t start = 0;   ///< the process that it is for, not one that replaces it
  };
  void give(Command command);
  void tell(size_t worker, Json header) { give({.worker = worker, .frame = {.header = std::move(header)}}); }

  void serve();
  bool is_idle_for_too_long(Clock::time_point now);
  void start(size_t worker);
  void start_missing();
  void take_commands();
  void wait_for_something();
  void look_after(size_t worker, Clock::duration passed);
  static void read_errors(Member& member);
  void read_frames(size_t worker);
  void answer(size_t worker, Frame frame);
  void bury(size_t worker, const std::string& how, ErrorCode code);
  void end_all();

  CrewListener& listener_;
  const PoolOptions options_;
  const ProcessSource source_;
  const Descriptor wake_;
  std::vector<Member> members_;
  std::vector<std::atomic<uint64_t>> starts_;
  std::vector<std::atomic<pid_t>> processes_;
  Clock::time_point last_call_ = Clock::now();
  std::mutex mutex_;
  std::vector<Command> commands_;
  bool closing_ = false;
  bool was_idle_ = false, have_started_ = false;
  std::thread thread_;
};

void ProcessCrew::prepare(Work& work) const {
  if (!work.is_task) {
    throw Error(
        ErrorCode::invalid_option,
        "a pool of processes cannot run a lambda, for it has no name that another process could find it by",
        "make it a function, name it with task<function>(\"name\"), list that in run(); or open a pool of "
        "threads");
  }
  work.input.bytes = tensor_bytes(work.input.tensors);
  if (work.input.bytes != nullptr) work.input.tensors.clear();
  // Refused here, and not when the call begins. Leaves room for what `begin` adds to the input.
  constexpr size_t kBeside = size_t{64} << 10;
  check_frame({.header = {{"input", work.input.fields}, {"beside", std::string(kBeside, ' ')}},
               .bytes = work.input.bytes});
}

void ProcessCrew::begin(size_t worker, Order order) {
  Frame frame{.header = {{"kind", "begin"},
                         {"call", order.call},
                         {"task", order.work->name},
                         {"rank", order.rank},
                         {"size", order.gpus.size()},
                         {"credits", order.credits},
                         {"stop_asked", order.stop_asked},
                         {"gpus", order.gpus},
                         {"worker", worker},
                         {"input", order.work->input.fields}},
              .bytes = order.work->input.bytes};
  if (order.gpus.size() > 1 && source_.meeting) frame.header["meeting"] = source_.meeting(worker);
  if (order.group != nullptr)
    frame.descriptor = Descriptor(::fcntl(order.group->descriptor(), F_DUPFD_CLOEXEC, 0));
  give({.worker = worker, .frame = std::move(frame), .begins = order.call});
}

void ProcessCrew::give(Command command) {
  command.start = starts_[command.worker].load();
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void ProcessCrew::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void ProcessCrew::serve() {
  auto last = Clock::now();
  while (true) {
    start_missing();
    wait_for_something();
    {
      const std::lock_guard lock(mutex_);
      if (closing_) break;
    }
    const auto now = Clock::now();
    const auto passed = std::min<Clock::duration>(now - last, kMostTick);
    last = now;
    take_commands();
    for (size_t worker = 0; worker < members_.size(); ++worker) look_after(worker, passed);
    was_idle_ = is_idle_for_too_long(now) && listener_.expires();
    if (was_idle_) break;
  }
  end_all();
}

bool ProcessCrew::is_idle_for_too_long(Clock::time_point now) {
  // Workers that are still starting are not idle.
  have_started_ = have_started_ || std::all_of(members_.begin(), members_.end(),
                                               [](const Member& member) { return member.is_ready; });
  if (!have_started_ ||
      std::any_of(members_.begin(), members_.end(), [](const Member& member) { return member.call >= 0; }))
    last_call_ = now;
  return source_.idle_limit.count() > 0 && now - last_call_ > source_.idle_limit;
}

WorkerInfo ProcessCrew::info(size_t worker) const {
  WorkerInfo info =
      source_.info ? source_.info(worker) : make_worker_info(static_cast<int64_t>(worker), gpu(worker));
  info.process = processes_[worker].load();
  return info;
}

void ProcessCrew::start(size_t worker) {
  StartedProcess started = source_.start(worker);
  Member& member = members_[worker];
  auto channel = std::make_unique<Channel>(std::move(started.socket));
  member = {.start = member.start + 1,
            .process = std::move(started),
            .channel = std::move(channel),
            .failed_starts = member.failed_starts};
  processes_[worker] = member.process.id;
  starts_[worker] = member.start;
}

void ProcessCrew::start_missing() {
  for (size_t worker = 0; worker < members_.size(); ++worker) {
    if (members_[worker].channel != nullptr || members_[worker].gone) continue;
    try {
      start(worker);
    } catch (const Error& error) {
      // A shortage, for example of memory or processes, may be over at the next look.
      Member& member = members_[worker];
      member.gone = ++member.failed_starts >= kMostFailedStarts;
      if (member.gone) listener_.lost(worker, error, /*for_good=*/true);
    }
  }
}

void ProcessCrew::take_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    Member& member = members_[command.worker];
    if (member.channel == nullptr || member.start != command.start) continue;
    if (command.begins >= 0) member.call = command.begins;
    member.channel->put(std::move(command.frame));
  }
}

void ProcessCrew::wait_for_something() {
  std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
  for (const Member& member : members_) {
    if (member.channel == nullptr) continue;
    waits.push_back({member.channel->socket(),
                     static_cast<short>(member.channel->has_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
    if (member.process.errors) waits.push_back({member.process.errors.get(), POLLIN, 0});
  }
  ::poll(waits.data(), waits.size(), static_cast<int>(kTick.count()));
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
}

void ProcessCrew::look_after(size_t worker, Clock::duration passed) {
  Member& member = members_[worker];
  if (member.channel == nullptr) return;
  read_errors(member);
  member.channel->flush();
  try {
    read_frames(worker);
  } catch (const std::exception& error) {
    return bury(worker, "sent what cannot be read and was ended: " + std::string(error.what()),
                ErrorCode::corrupt_data);
  }
  if (member.channel->closed()) return bury(worker, "", ErrorCode::communication);
  const bool spoke = member.channel->received() != member.received;
  member.received = member.channel->received();
  const bool waits = member.process.is_waiting && member.process.is_waiting();
  member.silent = spoke || waits ? Clock::duration(0) : member.silent + passed;
  const milliseconds most = member.is_ready ? options_.silence : options_.start_time;
  if (member.silent > most)
    bury(worker,
         "said nothing for " + shortest(static_cast<double>(most.count()) / 1000) + " s and was ended",
         ErrorCode::communication);
}

void ProcessCrew::read_errors(Member& member) {
  Descriptor& errors = member.process.errors;
  if (errors && !member.last_words.read(errors.get())) errors = Descriptor();
}

void ProcessCrew::read_frames(size_t worker) {
  for (Frame& frame : members_[worker].channel->receive()) answer(worker, std::move(frame));
}

void ProcessCrew::answer(size_t worker, Frame frame) {
  Member& member = members_[worker];
  const auto kind = frame.header.at("kind").get<std::string>();
  if (kind == "beat") return;
  if (kind == "ready") {
    member.is_ready = true;
    member.failed_starts = 0;
    const auto process = frame.header.at("process").get<pid_t>();
    if (member.process.id == 0) member.process.name += " (process " + std::to_string(process) + ")";
    processes_[worker] = process;
    return listener_.ready(worker);
  }
  const auto call = frame.header.at("call").get<int64_t>();
  if (call != member.call) throw Error(ErrorCode::corrupt_data, "it speaks of call " + std::to_string(call));
  if (kind == "value")
    return listener_.sent(worker, call,
                          {.fields = std::move(frame.header.at("value")), .bytes = std::move(frame.bytes)});
  member.call = -1;
  if (kind == "result")
    return listener_.ended(
        worker, call,
        {.result = Packet{.fields = std::move(frame.header.at("value")), .bytes = std::move(frame.bytes)}});
  if (kind != "failure") throw Error(ErrorCode::corrupt_data, "it speaks of \"" + kind + "\"");
  Error error = error_of(frame.header.at("error"));
  error.add_context("in " + member.place());
  listener_.ended(worker, call, {.error = std::move(error)});
}

// `how` is empty for a process that ended without being asked to. It is replaced after all members were
// looked after, because starting takes time and no loss should be reported late because of it.
void ProcessCrew::bury(size_t worker, const std::string& how, ErrorCode code) {
  Member& member = members_[worker];
  if (!how.empty()) member.process.kill();
  const std::string end = member.process.end();
  read_errors(member);
  Error error(code, member.place() + " " + (how.empty() ? end : how));
  if (const std::string words = member.last_words.text(); !words.empty())
    error.add_context("its last output: " + words);
  if (!member.is_ready) ++member.failed_starts;
  if (!member.process.can_be_replaced) member.failed_starts = kMostFailedStarts;
  member.channel = nullptr;
  member.process.errors = Descriptor();
  member.call = -1;
  member.gone = member.failed_starts >= kMostFailedStarts;
  listener_.lost(worker, error, member.gone);
}

void ProcessCrew::end_all() {
  const auto until = Clock::now() + kClosingTime;
  const auto left = [&] {
    return std::count_if(members_.begin(), members_.end(),
                         [](const Member& member) { return member.channel != nullptr; });
  };
  take_commands();
  for (Member& member : members_) {
    if (member.channel != nullptr) member.channel->put({.header = {{"kind", "close"}}});
  }
  while (left() > 0 && Clock::now() < until) {
    wait_for_something();
    for (Member& member : members_) {
      if (member.channel == nullptr) continue;
      read_errors(member);
      member.channel->flush();
      try {
        member.channel->receive();  // results that nobody waits for
      } catch (const Error&) {
        member.process.kill();
      }
      if (member.channel->closed()) {
        member.process.end();
        member.channel = nullptr;
      }
    }
  }
  for (Member& member : members_) {
    if (member.channel == nullptr) continue;
    member.process.kill();
    member.process.end();
    member.channel = nullptr;
  }
  if (source_.closed) source_.closed(was_idle_);
}

}  // namespace

std::unique_ptr<Crew> make_process_crew(const PoolOptions& options, std::vector<int64_t> gpus,
                                        ProcessSource source, CrewListener& listener) {
  return std::make_unique<ProcessCrew>(options, std::move(gpus), std::move(source), listener);
}

}  // namespace lockstep::pool
