#include "lockstep/studio/commands.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/printed_error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep::studio {
namespace {

constexpr int64_t kMostOutput = 64 << 10;                    // the end is shown
constexpr auto kStopPause = std::chrono::milliseconds(100);  // between looks at a stop
constexpr size_t kMostEnded = 100;                           // commands; each has a file
constexpr size_t kMostMebibytes = 16;
constexpr size_t kMostRead = kMostMebibytes << 20;

// What is shown is what is started: the system would cut a word at a zero byte.
std::vector<std::string> argv_of(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      throw Error(ErrorCode::invalid_option, quote(printable(word)) + " has a zero byte",
                  "a word of a command has none");
  }
  std::vector<std::string> all{"lockstep"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// From what a command prints of its error (cli/failure.h): "lockstep: MESSAGE", lines of context, and
// "  hint: HINT".
Error error_in(const std::string& errors) {
  std::vector<std::string> message;
  std::string hint;
  for (const std::string& line : split(errors, '\n')) {
    if (line.starts_with(kErrorTitle)) {
      message = {line.substr(kErrorTitle.size())};
      hint.clear();
    } else if (line.starts_with(kHintTitle)) {
      hint = line.substr(kHintTitle.size());
    } else if (!line.empty()) {
      message.push_back(line);
    }
  }
  return {ErrorCode::invalid_option, join(message, "\n"), hint};
}

std::filesystem::path make_private_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-studio-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw errno_error(errno, "create", name);
  return name;
}

std::string end_of_file(const std::filesystem::path& file) {
  try {
    const OpenFile opened(file, O_RDONLY);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(file));
    std::string text(static_cast<size_t>(std::min(size, kMostOutput)), '\0');
    text.resize(opened.read_at(size - static_cast<int64_t>(text.size()), text));
    return text;
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

Commands::Commands(std::filesystem::path program, EventStream& events)
    : program_(std::move(program)), events_(events), folder_(make_private_folder()) {}

// What still runs keeps its open file.
Commands::~Commands() {
  std::error_code code;
  std::filesystem::remove_all(folder_, code);
}

Json Commands::shown(const std::vector<std::string>& words) const { return argv_of(words); }

int64_t Commands::start(const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  const int64_t number = next_++;
  Command command{.words = words,
                  .started = now_seconds(),
                  .output = folder_ / (std::to_string(number) + ".txt"),
                  .status = {},
                  .looked = ++looks_};
  command.process =
      launch::start_detached({.program = program_.string(), .words = argv_of(words)}, command.output);
  commands_.emplace(number, std::move(command));
  events_.publish("command", {{"number", number}});
  return number;
}

void Commands::look() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, command] : commands_) {
    if (command.status) continue;
    const auto end = launch::try_wait_for_end(command.process);
    if (!end) continue;
    command.status = end->status ? launch::exit_status(*end->status) : 0;
    events_.publish("command", {{"number", number}});
  }
  drop_old();
}

// With the lock.
void Commands::drop_old() {
  std::map<int64_t, int64_t> ended;  // the numbers, by when they were asked about
  for (const auto& [number, command] : commands_) {
    if (command.status) ended.emplace(command.looked, number);
  }
  for (; ended.size() > kMostEnded; ended.erase(ended.begin())) {
    const auto oldest = commands_.find(ended.begin()->second);
    std::error_code code;
    std::filesystem::remove(oldest->second.output, code);
    commands_.erase(oldest);
  }
}

Json Commands::about(int64_t number, const Command& command) const {
  Json json{{"number", number}, {"words", argv_of(command.words)}, {"started", command.started}};
  if (command.status) json["status"] = *command.status;
  return json;
}

Json Commands::about(int64_t number) {
  look();
  const std::lock_guard lock(mutex_);
  const auto found = commands_.find(number);
  if (found == commands_.end()) throw Error(ErrorCode::not_found, "there is no such command");
  found->second.looked = ++looks_;
  Json json = about(number, found->second);
  json["output"] = end_of_file(found->second.output);
  return json;
}

Json Commands::list() {
  look();
  const std::lock_guard lock(mutex_);
  Json json = Json::array();
  for (const auto& [number, command] : commands_) json.push_back(about(number, command));
  return json;
}

Said Commands::said_by(const std::vector<std::string>& words, std::chrono::seconds limit,
                       LongOutput long_output) {
  launch::Pipe output = launch::make_pipe();
  launch::Pipe errors = launch::make_pipe();
  const pid_t process = launch::start_process({.program = program_.string(),
                                               .words = argv_of(words),
                                               .output = output.writing.get(),
                                               .errors = errors.writing.get(),
                                               .lifetime = launch::Lifetime::detached});
  output.writing = Descriptor();
  errors.writing = Descriptor();
  std::string text;
  std::string complaint;
  const auto until = std::chrono::steady_clock::now() + limit;
  bool output_is_open = true;
  bool errors_are_open = true;
  const auto give_up = [&] {
    launch::kill_group(process);
    if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "studio ends");
    throw Error(ErrorCode::timeout, "lockstep " + words.front() + " took more than " +
                                        std::to_string(limit.count()) + " seconds");
  };
  const auto take_output = [&](std::string_view piece) {
    if (long_output == LongOutput::only_end && text.size() > 2 * kMostRead)
      text.erase(0, text.size() - kMostRead);
    if (long_output == LongOutput::only_end || text.size() <= kMostRead) text += piece;
  };
  const auto take_error = [&](std::string_view piece) {
    if (complaint.size() < kMostRead) complaint += piece;
  };
  while (output_is_open || errors_are_open) {
    pollfd wanted[] = {{output_is_open ? output.reading.get() : -1, POLLIN, 0},
                       {errors_are_open ? errors.reading.get() : -1, POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || stop_.stop_requested()) give_up();
    ::poll(wanted, 2, static_cast<int>(std::min(left, kStopPause).count()));
    if (output_is_open) output_is_open = launch::read_available(output.reading.get(), take_output);
    if (errors_are_open) errors_are_open = launch::read_available(errors.reading.get(), take_error);
    if (long_output == LongOutput::refused && text.size() > kMostRead) {
      launch::kill_group(process);
      throw Error(ErrorCode::io,
                  "lockstep " + words.front() + " prints more than " + std::to_string(kMostMebibytes) +
                      " MiB, which is more than a page takes",
                  "start it in a terminal: " + join(argv_of(words), " "));
    }
  }
  // A command may go on after it has closed its outputs.
  const auto end = launch::wait_for_end(process, stop_.get_token(), until);
  if (!end) give_up();
  if (end->status && launch::exit_status(*end->status) != 0)
    throw complaint.empty() ? Error(ErrorCode::invalid_option, launch::text_of_status(*end->status))
                            : error_in(complaint);
  return {std::move(text), std::move(complaint)};
}

}  // namespace lockstep::studio
