// A worker process has two threads. The main thread executes orders, and the other one communicates with the
// client, so that a long task does not look dead.
#include "lockstep/pool/internal/process_worker.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ATen/Parallel.h>

#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/failure.h"
#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/internal/credits.h"
#include "lockstep/pool/internal/crew.h"
#include "lockstep/pool/internal/failure.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/words.h"

namespace lockstep::pool {
namespace {

constexpr std::chrono::milliseconds kBeat{250};
constexpr std::chrono::seconds kMeetingTime{60};

struct ProcessJob {
  Frame frame;
  int64_t call;
  std::stop_source stop;
  std::stop_source cancelled;  ///< requested ahead of `stop` when the client cancels or closes
  std::stop_source asked;      ///< requested by Future::ask_to_stop
  Credits credits;
  const std::shared_ptr<Words> words = std::make_shared<Words>();
  explicit ProcessJob(Frame begin)
      : frame(std::move(begin)),
        call(frame.header.at("call").get<int64_t>()),
        credits(frame.header.at("credits").get<int64_t>()) {
    if (frame.header.at("stop_asked").get<bool>()) asked.request_stop();
  }
};

// Checked here, on the task's own thread, so that a value that cannot be sent is the task's error.
Frame frame_of(const char* kind, int64_t call, Packet packet) {
  Frame frame{.header = {{"kind", kind}, {"call", call}, {"value", std::move(packet.fields)}},
              .bytes = tensor_bytes(packet.tensors)};
  check_frame(frame);
  return frame;
}

int64_t gpu_of(const Json& header) {
  return header.at("gpus").at(header.at("rank").get<size_t>()).get<int64_t>();
}

// The ranks may be on several machines.
std::unique_ptr<comm::Communicator> join_ranks(const Json& header, int64_t size,
                                               const comm::CommunicatorOptions& options) {
  const Json& place = header.at("meeting");
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  return comm::join_group({.rank = header.at("rank").get<int64_t>(),
                           .size = size,
                           .address = place.at("address").get<std::string>(),
                           .port = place.at("port").get<uint16_t>(),
                           .agent_store = true,
                           .attempt = header.at("call").get<int64_t>(),
                           .interface = interface == nullptr ? "" : interface,
                           .secret = place.at("secret").get<std::string>()},
                          options, {.waiting = {.limit = kMeetingTime}});
}

std::unique_ptr<comm::Communicator> share_memory(ProcessJob& job, const comm::CommunicatorOptions& options) {
  if (!job.frame.descriptor)
    throw Error(ErrorCode::io, "the memory of its group did not reach a worker",
                "raise the limit of open files (ulimit -n)");
  return comm::make_communicator(comm::GroupMemory::open(job.frame.descriptor.release()),
                                 job.frame.header.at("rank").get<int64_t>(), options);
}

std::unique_ptr<comm::Communicator> communicator_for(ProcessJob& job) {
  const Json& header = job.frame.header;
  const comm::CommunicatorOptions options{.stop = job.stop.get_token()};
  const auto size = header.at("size").get<int64_t>();
  if (size == 1) return comm::make_communicator(options);
  const bool is_on_cluster = header.contains("meeting");
  auto host = is_on_cluster ? join_ranks(header, size, options) : share_memory(job, options);
  const auto gpus = header.at("gpus").get<std::vector<int64_t>>();
  const std::set<int64_t> distinct(gpus.begin(), gpus.end());
  // NCCL does not link two processes on one GPU. On a cluster equal numbers are GPUs of different machines.
  if (distinct.contains(-1) || (!is_on_cluster && distinct.size() < gpus.size())) return host;
  const std::shared_ptr<comm::Communicator> shared = std::move(host);
  auto link = comm::link_gpus_at_first_use(shared, gpu_of(header), options);
  return comm::make_gpu_communicator({shared, std::move(link)}, options);
}

class ProcessWorker {
 public:
  ProcessWorker(Descriptor socket, const TaskTable& tasks, ClientLoss at_loss)
      : tasks_(tasks),
        at_loss_(std::move(at_loss)),
        channel_(std::move(socket)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw errno_error(errno, "make", "an event");
  }

  void run();

 private:
  void talk();
  [[noreturn]] void end_without_client() const;
  void take_frames();
  void take_outbox();
  void obey(Frame frame);
  std::shared_ptr<ProcessJob> next_job();
  Frame perform(ProcessJob& job);
  Packet run_task(ProcessJob& job, comm::Communicator& comm);
  void send(Frame frame);
  void wake();

  const TaskTable& tasks_;
  const ClientLoss at_loss_;
  const std::shared_ptr<SharedThings> shared_ = std::make_shared<SharedThings>();
  Channel channel_;  ///< used by the communicating thread
  const Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<ProcessJob>> jobs_;  ///< the first one is being executed
  std::vector<Frame> outbox_;
  bool closing_ = false;   ///< the client said so
  bool finished_ = false;  ///< the main thread has nothing more to send
};

void ProcessWorker::run() {
  at::set_num_threads(1);
  send({.header = {{"kind", "ready"}, {"process", ::getpid()}}});
  std::thread talking([this] { talk(); });
  while (const auto job = next_job()) {
    Frame answer = perform(*job);
    std::fflush(nullptr);  // so that what the task printed appears before its result
    {
      const std::lock_guard lock(mutex_);
      jobs_.pop_front();
    }
    send(std::move(answer));
  }
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  wake();
  talking.join();
}

std::shared_ptr<ProcessJob> ProcessWorker::next_job() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
  return jobs_.empty() ? nullptr : jobs_.front();
}

Frame ProcessWorker::perform(ProcessJob& job) {
  std::unique_ptr<comm::Communicator> comm;
  try {
    comm = communicator_for(job);
    return frame_of("result", job.call, run_task(job, *comm));
  } catch (...) {
    const Error error = device::error_of(std::current_exception());
    if (comm != nullptr) comm->abort(error);
    return {.header = {{"kind", "failure"}, {"call", job.call}, {"error", json_of(error)}}};
  }
}

Packet ProcessWorker::run_task(ProcessJob& job, comm::Communicator& comm) {
  Json& header = job.frame.header;
  const auto deliver = [&](Packet packet) {
    job.credits.take(job.stop.get_token());
    send(frame_of("value", job.call, std::move(packet)));
  };
  const bool has_queue = header.at("credits").get<int64_t>() > 0;
  Worker worker({.comm = comm,
                 .stop = job.stop.get_token(),
                 .cancelled = job.cancelled.get_token(),
                 .asked = job.asked.get_token(),
                 .words = job.words,
                 .index = header.at("worker").get<int64_t>(),
                 .device = device_of(gpu_of(header)),
                 .deliver = has_queue ? deliver : std::function<void(Packet)>(),
                 .shared = shared_,
                 .same_process = comm.size() == 1});
  const Worker::Scope scope(worker);
  return find_task(tasks_, header.at("task").get<std::string>())
      .run(worker, {.fields = std::move(header.at("input")), .bytes = job.frame.bytes});
}

void ProcessWorker::send(Frame frame) {
  {
    const std::lock_guard lock(mutex_);
    outbox_.push_back(std::move(frame));
  }
  wake();
}

void ProcessWorker::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void ProcessWorker::talk() {
  auto last_beat = std::chrono::steady_clock::now();
  while (true) {
    take_outbox();
    if (std::chrono::steady_clock::now() - last_beat >= kBeat && !channel_.has_to_send()) {
      channel_.put({.header = {{"kind", "beat"}}});
      last_beat = std::chrono::steady_clock::now();
    }
    channel_.flush();
    take_frames();
    if (channel_.closed()) end_without_client();
    {
      const std::lock_guard lock(mutex_);
      if (finished_ && outbox_.empty() && !channel_.has_to_send()) return;
    }
    std::array<pollfd, 2> waits{
        pollfd{channel_.socket(), static_cast<short>(channel_.has_to_send() ? POLLIN | POLLOUT : POLLIN), 0},
        pollfd{wake_.get(), POLLIN, 0}};
    ::poll(waits.data(), waits.size(), static_cast<int>(kBeat.count()));
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  }
}

void ProcessWorker::end_without_client() const {
  if (!at_loss_.words.empty()) std::fprintf(stderr, "%s\n", at_loss_.words.c_str());
  ::_exit(at_loss_.status);
}

void ProcessWorker::take_outbox() {
  std::vector<Frame> frames;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(outbox_);
  }
  for (Frame& frame : frames) channel_.put(std::move(frame));
}

void ProcessWorker::take_frames() {
  try {
    for (Frame& frame : channel_.receive()) obey(std::move(frame));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a worker process cannot understand its client: %s\n", error.what());
    ::_exit(1);
  }
}

void ProcessWorker::obey(Frame frame) {
  const auto kind = frame.header.at("kind").get<std::string>();
  const bool close = kind == "close";
  std::vector<std::shared_ptr<ProcessJob>> meant;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& job : jobs_) {
      if (close || job->call == frame.header.at("call").get<int64_t>()) meant.push_back(job);
    }
    if (kind == "begin") jobs_.push_back(std::make_shared<ProcessJob>(std::move(frame)));
    closing_ = closing_ || close;
    changed_.notify_all();
  }
  // Without the lock: a stop runs callbacks that a task has registered with its token.
  for (const auto& job : meant) {
    if (kind == "credit") job->credits.give(1);
    if (kind == "say") job->words->put(frame.header.at("word").get<std::string>());
    if (kind == "ask_to_stop") job->asked.request_stop();
    if (close || (kind == "stop" && frame.header.at("cancelled").get<bool>())) job->cancelled.request_stop();
    if (kind == "stop" || close) job->stop.request_stop();
  }
}

}  // namespace

void work_for(pid_t client, const TaskTable& tasks) {
  if (::getppid() != client || ::fcntl(kWorkerSocket, F_SETFD, FD_CLOEXEC) != 0) {
    throw Error(
        ErrorCode::invalid_option,
        std::string(kWorkerArgument) + " is what a pool starts its workers with, and not to be typed");
  }
  const int open_to_the_end =
      ::fcntl(kWorkerSocket, F_DUPFD_CLOEXEC, 0);  // its closing tells the client that the process has ended
  if (open_to_the_end < 0) throw errno_error(errno, "use", "the connection to the client");
  work_at(Descriptor(kWorkerSocket), tasks, {});
}

void work_at(Descriptor socket, const TaskTable& tasks, const ClientLoss& at_loss) {
  ProcessWorker(std::move(socket), tasks, at_loss).run();
}

}  // namespace lockstep::pool
