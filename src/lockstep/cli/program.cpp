#include "lockstep/cli/program.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/arguments.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

// As a shell reports a program that SIGPIPE ended.
constexpr int kClosedPipeStatus = 141;

bool starts_with_verb(const std::vector<std::string>& arguments, const std::vector<std::string>& name) {
  return arguments.size() >= name.size() && std::equal(name.begin(), name.end(), arguments.begin());
}

[[noreturn]] void unknown_verb(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  std::vector<std::string> family;  // "network show" when only "network" was typed
  for (const Verb& verb : builtin_verbs()) {
    if (verb.hidden) continue;
    names.push_back(verb.name);
    if (split(verb.name, ' ').front() == arguments.front()) family.push_back("lockstep " + verb.name);
  }
  const std::string& first = arguments.front();
  if (first.starts_with("-")) throw Error(ErrorCode::invalid_option, "there is no option " + first, "options stand after a command, as in lockstep train FOLDER --workers 2");
  if (!family.empty()) {
    const std::string typed = first + (arguments.size() > 1 ? " " + arguments[1] : "");
    throw Error(ErrorCode::invalid_option, "there is no command \"" + typed + "\"", "there are " + join(family, " and "));
  }
  const std::string two_words = arguments.size() > 1 ? first + " " + arguments[1] : first;
  std::string found = nearest(two_words, names);
  if (found.empty()) found = nearest(first, names);
  throw Error(ErrorCode::invalid_option, "there is no command \"" + first + "\"", found.empty() ? "lockstep --help lists the commands" : "did you mean " + found + "?");
}

const Verb& find_verb(const std::vector<std::string>& arguments) {
  for (const Verb& verb : builtin_verbs()) {
    if (starts_with_verb(arguments, split(verb.name, ' '))) return verb;
  }
  unknown_verb(arguments);
}

using Variable = std::function<const char*(const char*)>;

int run_verb(const Verb& verb, const std::vector<std::string>& arguments, Console& console, const Variable& variable) {
  const auto rest = arguments.begin() + static_cast<std::ptrdiff_t>(split(verb.name, ' ').size());
  Call call = verb.starts_program ? read_program_arguments(verb, {rest, arguments.end()}) : read_arguments(verb, {rest, arguments.end()});
  if (verb.joins_ranks) call.launch = comm::read_launch(variable);
  if (call.help) {
    console.print(verb_help(verb, console.width()));
    return 0;
  }
  try {
    return verb.run(call, console);
  } catch (const Error& error) {
    // Nobody stopped this rank: whoever was stopped by a signal says so by its own status.
    if (error.code() != ErrorCode::cancelled || !call.launch) throw;
    console.note(failure_text(error));
    return call.launch->lost_status;
  }
}

int answer(const std::vector<std::string>& arguments, Console& console, const Variable& variable, const Verb*& verb) {
  const std::string first = arguments.empty() ? "--help" : arguments.front();
  if (first == "--version") {
    console.print("lockstep " LOCKSTEP_VERSION "\n");
    return 0;
  }
  if (first == "--help" || first == "-h" || (first == "help" && arguments.size() == 1)) {
    console.print(program_help(builtin_verbs(), console.width()));
    return 0;
  }
  if (first == "help") {
    console.print(verb_help(find_verb({arguments.begin() + 1, arguments.end()}), console.width()));
    return 0;
  }
  verb = &find_verb(arguments);
  return run_verb(*verb, arguments, console, variable);
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, Console& console, const Variable& variable) noexcept {
  const Verb* verb = nullptr;
  try {
    return answer(arguments, console, variable, verb);
  } catch (const ClosedPipe&) {
    return kClosedPipeStatus;
  } catch (...) {
    const Error error = as_error(std::current_exception());
    console.note(failure_text(error));
    return verb != nullptr && verb->error_status != 0 ? verb->error_status : exit_status(error.code());
  }
}

}  // namespace lockstep::cli
