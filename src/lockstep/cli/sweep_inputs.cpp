#include "lockstep/cli/sweep_inputs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/printed_error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/data_places.h"
#include "lockstep/cli/sweep_checks.h"
#include "lockstep/cluster/command.h"
#include "lockstep/io/address.h"
#include "lockstep/launch/process.h"
#include "lockstep/sweep/engine.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kMostCheckTime{60};  // a longer listing is left to the trials
constexpr size_t kMostTried = 32;                   // trials

// What trials have: the values that are searched, and the one of the command where they do not always count.
std::vector<std::string> values_of(const sweep::SweepSpec& spec, const std::string& name,
                                   const std::string& in_command) {
  for (const sweep::Parameter& parameter : spec.space.parameters()) {
    if (parameter.name != name) continue;
    std::vector<std::string> values = parameter.choices;
    if (!parameter.when.empty()) values.push_back(in_command);
    return values;
  }
  return {in_command};
}

void check_is_there(const sweep::SweepSpec& spec, const std::string& path) {
  if (!path.empty() && !io::is_address(path)) check_data_is_there(path_of_trial(spec, path));
}

std::vector<std::string> networks_of(const std::string& program) {
  launch::Pipe pipe = launch::make_pipe();
  const pid_t process = launch::start_process({.program = program,
                                               .words = {"lockstep", "network", "list"},
                                               .output = pipe.writing.get(),
                                               .errors = launch::kNull});
  pipe.writing = {};
  const launch::End end = launch::wait_for_end(process);  // the pipe holds more than it prints
  if (end.status.value_or(1) != 0) return {};
  std::string text;
  launch::read_available(pipe.reading.get(), [&](std::string_view piece) { text += piece; });
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    if (const size_t begin = line.find_first_not_of(' '); begin != std::string::npos)
      names.push_back(line.substr(begin, line.find(' ', begin) - begin));
  }
  return names;  // and the heading
}

void check_networks(const sweep::SweepSpec& spec, const std::string& in_command, const std::string& program) {
  std::vector<std::string> asked;
  for (const std::string& name : values_of(spec, "network", in_command)) {
    if (name.ends_with(".json")) {
      check_is_there(spec, name);
    } else if (name != "auto") {
      asked.push_back(name);
    }
  }
  const std::vector<std::string> known = asked.empty() ? asked : networks_of(program);
  if (known.empty()) return;
  for (const std::string& name : asked) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::invalid_option, "unknown network " + quote(name),
                  nearest(name, known).empty() ? "lockstep network list shows the built-in ones"
                                               : did_you_mean(name, known));
  }
}

// A program whose name has a parameter in it is left to the trials.
void check_program(const sweep::SweepSpec& spec) {
  const std::string& program = spec.command.front();
  if (program.find('{') != std::string::npos) return;
  const std::string path = path_of_trial(spec, program);
  std::error_code none;
  const bool is_path = program.find('/') != std::string::npos;
  if (is_path ? std::filesystem::is_regular_file(path, none) && ::access(path.c_str(), X_OK) == 0
              : cluster::has_program(program, spec.working_folder))
    return;
  if (is_path && std::filesystem::exists(path, none))
    throw Error(ErrorCode::invalid_option, quote(path) + " is no program that can be run",
                "chmod +x makes a script one; a script of Python may also be named after python3");
  throw Error(ErrorCode::not_found, "there is no program " + quote(is_path ? path : program),
              is_path
                  ? "check its path, which begins in the working folder of the sweep"
                  : "check its name, which is searched for in PATH; write ./ before a program that is here");
}

// Points that together have each choice of each list and both ends of each range, or the first of them.
std::vector<sweep::Point> points_to_try(const sweep::Space& space) {
  size_t choices = 1, ends = 1;
  for (const sweep::Parameter& parameter : space.parameters()) {
    choices = std::max(choices, parameter.choices.size());
    if (parameter.is_number() && !parameter.is_single()) ends = 2;
  }
  std::vector<sweep::Point> points(std::min(choices * ends, kMostTried),
                                   sweep::Point(space.size(), sweep::kAbsent));
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < space.size(); ++j) {
      const sweep::Parameter& parameter = space.parameters()[j];
      if (!space.counts(j, points[i])) continue;
      points[i][j] = !parameter.is_number() ? static_cast<double>(i % parameter.choices.size())
                     : i < choices          ? parameter.low
                                            : parameter.high;
    }
  }
  return points;
}

// How train refuses this trial; nothing if it does not, or if that takes too long to know.
std::optional<Error> refusal_of(const sweep::SweepSpec& spec, const sweep::Point& point,
                                const std::string& program, std::chrono::steady_clock::time_point last) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(last - std::chrono::steady_clock::now());
  if (left.count() <= 0) return std::nullopt;
  std::vector<std::string> words =
      sweep::command_of({}, spec, 0, spec.space.assignment(point));  // "train" and its words
  words.front() = "sweep-check";
  const std::string folder = spec.working_folder.empty() ? "." : spec.working_folder;
  words.insert(words.begin(), {"sh", "-c", R"(cd -- "$0" && exec "$@")", folder, program});
  words.insert(words.end(), {"--workers", std::to_string(spec.options.workers)});
  const cluster::CommandEnd end = cluster::run_command(words, {.limit = left});
  if (end.out_of_time || (end.status != 1 && end.status != 2)) return std::nullopt;
  std::vector<std::string> context;
  std::string message, hint;
  for (const std::string& line : split(end.errors, '\n')) {
    if (line.starts_with(kErrorTitle)) {
      message = line.substr(kErrorTitle.size());
      context.clear();
    } else if (line.starts_with(kHintTitle)) {
      hint = line.substr(kHintTitle.size());
    } else if (line.starts_with("  ")) {
      context.push_back(line.substr(2));
    }
  }
  if (message.empty()) return std::nullopt;
  Error error(end.status == 2 ? ErrorCode::invalid_option : ErrorCode::not_found, message, hint);
  for (std::string& line : context) error.add_context(std::move(line));
  return error;
}

void check_training(const sweep::SweepSpec& spec, const std::vector<std::string>& data,
                    const std::string& program) {
  if (std::ranges::any_of(data, [](const std::string& path) { return io::is_address(path); })) return;
  const auto last = std::chrono::steady_clock::now() + kMostCheckTime;
  std::optional<Error> first;
  for (const sweep::Point& point : points_to_try(spec.space)) {
    const auto refusal = refusal_of(spec, point, program, last);
    if (!refusal || (first && first->message() != refusal->message())) return;
    if (!first) first = refusal;
  }
  if (first) throw Error(*first);
}

}  // namespace

void check_inputs(const sweep::SweepSpec& spec, const std::string& program, bool is_new) {
  if (!spec.trains()) return check_program(spec);
  const Call call = call_of_train(spec);
  if (call.help) return;
  const train::Options options = asked_options(call).options;
  std::vector<std::string> data{call.words.front()};
  for (const std::string& path : values_of(spec, "validation", options.validation)) data.push_back(path);
  for (const std::string& path : values_of(spec, "test", options.test)) data.push_back(path);
  for (const std::string& path : data) check_is_there(spec, path);
  check_networks(spec, options.network, program);
  if (is_new) check_training(spec, data, program);
}

}  // namespace lockstep::cli
