#include "lockstep/cli/host_ranks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/build_text.h"
#include "lockstep/cli/host_messages.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cluster/ssh.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kHelloLimit{60};
constexpr std::chrono::seconds kSignOfLife{5};
constexpr std::chrono::milliseconds kInterval{200};
// After a failure elsewhere: a request to end, the end of the connection, the end of ssh.
constexpr std::chrono::seconds kAsked{1}, kCut{4}, kKilled{9};
constexpr size_t kMostErrors = 4096;
constexpr size_t kLongestLine = 64 << 20;
constexpr int kNoProgram = 127;

/// An agent on a host, and the ssh process towards it.
class Agent {
 public:
  Agent(Host host, const std::string& lockstep) : host_(std::move(host)) {
    launch::Pipe orders = launch::make_pipe();
    const std::vector<std::string> words = cluster::ssh_words(
        {.login = host_.name, .words = {lockstep, "host-ranks"}, .shares_connection = false});
    process_ = launch::start_process({.program = words.front(),
                                      .words = words,
                                      .input = orders.reading.get(),
                                      .output = said_.writing.get(),
                                      .errors = errors_.writing.get()});
    orders_ = std::move(orders.writing);
    said_.writing = {};
    errors_.writing = {};
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent() {
    orders_ = {};
    if (!is_open()) return;
    launch::kill_group(process_);
  }

  /// Takes what has come. print, note: whole texts of ranks. Throws the error that the agent reports.
  void take(const std::function<void(const char* key, std::string_view text)>& show) {
    launch::read_available(errors_.reading.get(), [&](std::string_view text) {
      said_of_ssh_ += text;
      if (said_of_ssh_.size() > kMostErrors) said_of_ssh_.erase(0, said_of_ssh_.size() - kMostErrors);
    });
    const bool more =
        launch::read_available(said_.reading.get(), [&](std::string_view text) { line_ += text; });
    size_t start = 0;
    for (size_t end; (end = line_.find('\n', start)) != std::string::npos; start = end + 1)
      take_line(line_.substr(start, end - start), show);
    line_.erase(0, start);
    if (line_.size() > kLongestLine) line_.clear();
    if (more) return;
    said_.reading = {};
    const launch::End end = launch::wait_for_end(process_);
    process_ = -1;
    const int status = end.status.value_or(0);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }

  void order(const char* key, const Json& value) { send(message_line(key, value)); }
  void send(std::string_view bytes) {
    while (orders_ && !bytes.empty()) {
      const ssize_t sent = ::write(orders_.get(), bytes.data(), bytes.size());
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) orders_ = {};  // its end will be noticed where it is read
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void cut() { orders_ = {}; }
  void kill() const {
    if (is_open()) launch::signal_group(process_, SIGKILL);
  }

  const Host& host() const { return host_; }
  bool is_open() const { return process_ > 0; }
  int reading_end() const { return said_.reading.get(); }
  const std::optional<Hello>& hello() const { return hello_; }
  const std::optional<Meeting>& meeting() const { return meeting_; }
  const std::optional<RanksEnd>& end() const { return end_; }

  [[noreturn]] void throw_unreachable() const {
    if (status_ == kNoProgram)
      throw Error(ErrorCode::cluster, host_.name + " does not have Lockstep: " + last_words(),
                  "install it there, or say where it is: --program PATH");
    cluster::throw_ssh_error(host_.name, said_of_ssh_);
  }
  std::string last_words() const {
    std::vector<std::string> lines = split(said_of_ssh_, '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines.empty() ? "the connection ended" : printable(lines.back());
  }

 private:
  void take_line(const std::string& line, const std::function<void(const char*, std::string_view)>& show) {
    Json said;
    try {
      said = parse_json(line);
    } catch (const JsonError&) {  // a shell's greeting
      return;
    }
    if (!said.is_object()) return;
    const auto read = [&]<typename T>(const char* key, std::optional<T>& into) {
      if (said.contains(key)) read_json(said.at(key), into.emplace(), quote(host_.name));
    };
    for (const char* key : {say::kPrint, say::kNote}) {
      if (said.contains(key)) show(key, said.at(key).get<std::string>());
    }
    read(say::kHello, hello_);
    read(say::kMeeting, meeting_);
    read(say::kEnded, end_);
    if (said.contains(say::kFailed)) {
      const Json& failed = said.at(say::kFailed);
      throw Error(ErrorCode::cluster, host_.name + ": " + failed.at("text").get<std::string>(),
                  failed.at("hint").get<std::string>());
    }
  }

  Host host_;
  pid_t process_ = -1;  // of ssh; -1 once it has ended
  int status_ = 0;
  Descriptor orders_;
  launch::Pipe said_ = launch::make_pipe(), errors_ = launch::make_pipe();
  std::string line_, said_of_ssh_;
  std::optional<Hello> hello_;
  std::optional<Meeting> meeting_;
  std::optional<RanksEnd> end_;
};

class HostRanks {
 public:
  HostRanks(const HostProgram& asked, Console& console) : asked_(asked), console_(console) {
    const sigset_t signals = launch::stop_signal_set();
    signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw errno_error(errno, "watch", "signals");
  }

  RanksEnd run() {
    greet();
    if (signal_ == 0) start();
    while (signal_count_ < 2 && any_open()) {
      wait();
      note_ends();
      press();
    }
    if (output_failure_ && failures_.empty() && signal_ == 0) std::rethrow_exception(output_failure_);
    RanksEnd end{.failures = {}, .signal = signal_};
    if (signal_ == 0 && !failures_.empty()) {
      const auto known = std::find_if(failures_.begin(), failures_.end(),
                                      [](const RankFailure& failure) { return !failure.was_lost; });
      end.failures.push_back(known == failures_.end() ? failures_.front() : *known);
    }
    return end;
  }

 private:
  bool any_open() const {
    return std::any_of(agents_.begin(), agents_.end(), [](const auto& agent) { return agent->is_open(); });
  }

  void greet() {
    std::vector<Host> hosts;
    for (const HostShare& share : share_ranks(asked_.hosts, asked_.ranks)) hosts.push_back(share.host);
    if (asked_.program.restarts > 0) hosts = asked_.hosts;  // spare ones may be needed
    for (const Host& host : hosts) agents_.push_back(std::make_unique<Agent>(host, asked_.lockstep));
    const auto end = Clock::now() + kHelloLimit;
    const auto is_waited_for = [](const auto& agent) { return agent->is_open() && !agent->hello(); };
    while (signal_ == 0 && std::any_of(agents_.begin(), agents_.end(), is_waited_for) && Clock::now() < end)
      wait();
    if (signal_ != 0) return agents_.clear();
    for (const auto& agent : agents_) {
      if (agent->hello()) {
        check_build(*agent);
      } else if (asked_.program.restarts == 0) {
        agent->throw_unreachable();
      } else {
        console_.note("lockstep: " + agent->host().name +
                      " cannot be reached and is left out: " + agent->last_words() + "\n");
      }
    }
    std::erase_if(agents_, [](const auto& agent) { return !agent->hello(); });
    if (agents_.empty())
      throw Error(ErrorCode::cluster, "none of the hosts can be reached any more", "ssh HOST true says why");
  }

  static void check_build(const Agent& agent) {
    if (agent.hello()->build == build_text()) return;
    throw Error(ErrorCode::cluster,
                agent.host().name + " has another build of Lockstep, whose weights may differ: " +
                    printable(agent.hello()->build),
                "install the same package on all hosts, or name its program: --program PATH");
  }

  void start() {
    std::vector<Host> hosts;
    int64_t slots = 0;
    for (const auto& agent : agents_) {
      hosts.push_back(agent->host());
      slots += agent->host().slots;
    }
    const bool is_bounded =
        std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots > 0; });
    const int64_t ranks =
        is_bounded && asked_.program.restarts > 0 ? std::min(slots, asked_.ranks) : asked_.ranks;
    const std::vector<HostShare> shares = share_ranks(hosts, ranks);
    std::erase_if(agents_, [&](const auto& agent) {
      return std::none_of(shares.begin(), shares.end(),
                          [&](const HostShare& share) { return share.host.name == agent->host().name; });
    });
    const Meeting meeting = meet(shares.size());
    if (signal_ != 0) return;
    check_meeting_place(meeting.address);
    StartOrder order{.working_folder = std::filesystem::current_path().string(), .program = asked_.program};
    order.program.address = meeting.address;
    order.program.port = meeting.port;
    order.program.secret = meeting.secret;
    order.program.machines = static_cast<int64_t>(shares.size());
    order.program.world = shares.back().first + shares.back().ranks;
    auto& words = order.program.words;
    if (meeting.has_run && std::find(words.begin(), words.end(), "--resume") == words.end())
      words.emplace_back("--resume");
    for (size_t i = 0; i < shares.size(); ++i) {
      order.program.machine = static_cast<int64_t>(i);
      order.program.first = shares[i].first;
      order.program.ranks = shares[i].ranks;
      agents_[i]->order("start", to_json(order));
    }
    shares_ = shares;
  }

  Meeting meet(size_t machines) {
    Agent& first = *agents_.front();
    MeetOrder order{.address = first.host().address,
                    .run_folder = asked_.program.restarts > 0 ? asked_.run_folder : ""};
    if (order.address.empty() && machines == 1) order.address = "127.0.0.1";
    first.order("meet", to_json(order));
    while (signal_ == 0 && first.is_open() && !first.meeting()) wait();
    if (signal_ == 0 && !first.meeting()) first.throw_unreachable();
    return first.meeting().value_or(Meeting{});
  }

  // The names of the hosts may all be of one machine.
  void check_meeting_place(const std::string& address) const {
    const Agent& first = *agents_.front();
    const auto other = std::find_if(agents_.begin(), agents_.end(), [&](const auto& agent) {
      return agent->hello()->machine != first.hello()->machine && !is_of_one_machine(agent->hello()->address);
    });
    if (!is_of_one_machine(address) || other == agents_.end()) return;
    throw Error(ErrorCode::invalid_option,
                first.host().name + " is reached at " + printable(address) + ", where " +
                    (*other)->host().name + " cannot reach it",
                "say at which address the others do, behind its name in the file of --hosts: " +
                    first.host().name + " address=A");
  }
  static bool is_of_one_machine(const std::string& address) {
    return address.starts_with("127.") || address == "::1" || address == "localhost";
  }

  void wait() {
    std::vector<pollfd> waits{{signals_.get(), POLLIN, 0}};
    for (const auto& agent : agents_) waits.push_back({agent->reading_end(), POLLIN, 0});
    ::poll(waits.data(), waits.size(), static_cast<int>(kInterval.count()));
    for (const auto& agent : agents_) {
      if (agent->is_open()) agent->take([this](const char* key, std::string_view text) { show(key, text); });
    }
    read_signals();
    if (!shares_.empty() && Clock::now() > last_sign_ + kSignOfLife) {
      send('\0');
      last_sign_ = Clock::now();
    }
  }

  void show(const char* key, std::string_view text) {
    if (std::string_view(key) == say::kNote) return console_.note(text);
    if (output_failure_) return;
    try {
      console_.print(text);
    } catch (...) {
      output_failure_ = std::current_exception();  // the ranks continue without their output
    }
  }

  void send(char byte) {
    for (const auto& agent : agents_) {
      if (agent->is_open()) agent->send({&byte, 1});
    }
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal_ != 0 && (signal == SIGHUP || Clock::now() < first_signal_ + launch::kEcho)) continue;
      launch::ignore_hangups();
      if (signal_ == 0) {
        signal_ = signal;
        first_signal_ = Clock::now();
      }
      if (!shares_.empty()) send(static_cast<char>(signal));
      ++signal_count_;
    }
  }

  void note_ends() {
    for (size_t i = 0; i < agents_.size(); ++i) {
      Agent& agent = *agents_[i];
      if (agent.is_open() || is_noted(agent)) continue;
      noted_.push_back(&agent);
      if (!agent.end()) {
        note({.rank = -1,
              .host = agent.host().name,
              .how = agent.last_words(),
              .status = 1,
              .was_killed = true});
      } else if (!agent.end()->failures.empty()) {
        RankFailure failure = agent.end()->failures.front();
        failure.host = agent.host().name;
        note(std::move(failure));
      }
    }
  }
  bool is_noted(const Agent& agent) const {
    return std::find(noted_.begin(), noted_.end(), &agent) != noted_.end();
  }
  void note(RankFailure failure) {
    failures_.push_back(std::move(failure));
    if (!first_failure_) first_failure_ = Clock::now();
  }

  // After a failure: the other hosts' ranks notice it themselves, and are made to end.
  void press() {
    if (!first_failure_) return;
    const auto passed = Clock::now() - *first_failure_;
    if (passed >= kAsked && !asked_to_end_) {
      send(SIGTERM);
      asked_to_end_ = true;
    }
    for (const auto& agent : agents_) {
      if (passed >= kCut) agent->cut();
      if (passed >= kKilled) agent->kill();
    }
  }

  const HostProgram& asked_;
  Console& console_;
  Descriptor signals_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<HostShare> shares_;  // empty until the ranks were started
  std::vector<const Agent*> noted_;
  std::vector<RankFailure> failures_;  // as they came
  std::optional<Clock::time_point> first_failure_;
  bool asked_to_end_ = false;
  int signal_ = 0, signal_count_ = 0;
  Clock::time_point last_sign_ = Clock::now(), first_signal_;
  std::exception_ptr output_failure_;
};

}  // namespace

RanksEnd run_on_hosts(const HostProgram& asked, Console& console) { return HostRanks(asked, console).run(); }

}  // namespace lockstep::cli
