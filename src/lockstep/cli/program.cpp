#include "lockstep/cli/program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/arguments.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/build_text.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/relay.h"
#include "lockstep/cli/train_on_cluster.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

// What a shell reports for a program that SIGPIPE ended.
constexpr int kClosedPipeStatus = 141;

bool starts_with_verb(const std::vector<std::string>& arguments, const std::vector<std::string>& name) {
  return arguments.size() >= name.size() && std::equal(name.begin(), name.end(), arguments.begin());
}

[[noreturn]] void unknown_verb(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  std::vector<std::string> family;  // "network show" for "network"
  for (const Verb& verb : builtin_verbs()) {
    if (verb.hidden) continue;
    names.push_back(verb.name);
    if (split(verb.name, ' ').front() == arguments.front()) family.push_back(verb.name);
  }
  const std::string& first = arguments.front();
  if (first.starts_with("-"))
    throw Error(ErrorCode::invalid_option, "unknown option " + first,
                "options follow a command, as in lockstep train FOLDER --workers 2");
  const std::string two_words = arguments.size() > 1 ? first + " " + arguments[1] : first;
  std::string found = nearest(two_words, family.empty() ? names : family);
  if (found.empty() && family.empty()) found = nearest(first, names);
  const std::string lists = "lockstep " + (family.empty() ? "" : first + " ") + "--help lists the commands";
  throw Error(ErrorCode::invalid_option, "unknown command \"" + (family.empty() ? first : two_words) + "\"",
              found.empty() ? lists : "did you mean " + found + "?");
}

// A word without "--" before it is the file of a search, or was to be a command: "sweep shwo".
bool begins_with_unknown_word(const Verb& verb, const std::vector<std::string>& arguments) {
  return verb.searches && arguments.size() > 1 && !arguments[1].starts_with("-") &&
         !arguments[1].ends_with(".json");
}

const Verb& find_verb(const std::vector<std::string>& arguments) {
  for (const Verb& verb : builtin_verbs()) {
    if (!starts_with_verb(arguments, split(verb.name, ' '))) continue;
    if (begins_with_unknown_word(verb, arguments)) break;
    return verb;
  }
  unknown_verb(arguments);
}

// For "cloud", "cloud --help" and "help cloud"; otherwise empty.
std::string help_of_family(const std::vector<std::string>& arguments, int width) {
  const bool is_asked =
      arguments.size() == 1 ||
      (arguments.size() == 2 && (arguments[0] == "help" || arguments[1] == "--help" || arguments[1] == "-h"));
  const std::string& family = arguments[arguments.size() == 2 && arguments[0] == "help" ? 1 : 0];
  const bool is_verb = std::any_of(builtin_verbs().begin(), builtin_verbs().end(),
                                   [&](const Verb& verb) { return verb.name == family; });
  return is_asked && !is_verb ? family_help(builtin_verbs(), family, width) : "";
}

// With the commands that begin with its name: those of "sweep" after its own options.
std::string help_of_verb(const Verb& verb, int width) {
  const std::string members = family_help(builtin_verbs(), verb.name, width);
  return verb_help(verb, width) + (members.empty() ? "" : "\n" + members);
}

int run_verb(const Verb& verb, const std::vector<std::string>& arguments, Console& console,
             const RunInEngine& engine) {
  const auto rest = arguments.begin() + static_cast<std::ptrdiff_t>(split(verb.name, ' ').size());
  const auto read = verb.starts_program ? read_program_arguments
                    : verb.searches     ? read_search_arguments
                                        : read_arguments;
  const Call call = read(verb, {rest, arguments.end()});
  if (call.help) {
    console.print(help_of_verb(verb, console.width()));
    return 0;
  }
  check_places(call);
  if (const auto status = relay(verb, call, console)) return *status;
  if (const auto status = train_on_cluster(verb, call, console)) return *status;
  return verb.run != nullptr ? verb.run(call, console) : engine(verb, call, console);
}

int answer(const std::vector<std::string>& arguments, Console& console, const RunInEngine& engine,
           const Verb*& verb) {
  const std::string first = arguments.empty() ? "--help" : arguments.front();
  if (first == "--version") {
    console.print("lockstep " + std::string(version()) + "\n" + build_text() + "\n");
    return 0;
  }
  if (first == "--help" || first == "-h" || (first == "help" && arguments.size() == 1)) {
    console.print(program_help(builtin_verbs(), console.width()));
    return 0;
  }
  if (const std::string help = help_of_family(arguments, console.width()); !help.empty()) {
    console.print(help);
    return 0;
  }
  if (first == "help") {
    console.print(help_of_verb(find_verb({arguments.begin() + 1, arguments.end()}), console.width()));
    return 0;
  }
  verb = &find_verb(arguments);
  return run_verb(*verb, arguments, console, engine);
}

// A closed descriptor would be given to the next file that is opened, and output would go to that file.
// Reading and writing stay errors.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, Console& console,
                const RunInEngine& engine) noexcept {
  const Verb* verb = nullptr;
  try {
    return answer(arguments, console, engine, verb);
  } catch (const ClosedPipe&) {
    return kClosedPipeStatus;
  } catch (...) {
    const Error error = as_error(std::current_exception());
    console.note(failure_text(error, console.note_is_terminal() ? console.width() : 0));
    return verb != nullptr && verb->error_status != 0 ? verb->error_status : exit_status(error.code());
  }
}

int run_main(int argc, char** argv, const RunInEngine& engine) {
  occupy_standard_descriptors();
  // A run outlives its readers: a closed pipe is an error to report, and does not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  // Where the starter ignored it, the kernel would keep no status of processes that end, and a failure would
  // be taken for a success.
  std::signal(SIGCHLD, SIG_DFL);
  const char* columns = std::getenv("COLUMNS");
  Console console(stdout, stderr, columns == nullptr ? 0 : std::atoi(columns));
  return run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, console, engine);
}

}  // namespace lockstep::cli
