#include "lockstep/cluster/lockstep_command.h"

#include "lockstep/base/error.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/base/printed_error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"

namespace lockstep::cluster {
namespace {

// The lines "lockstep: ..." and "  hint: ..." of what it wrote, or a stage of `cluster validate` that failed.
Error error_in(const std::string& words, const CommandEnd& end) {
  std::string message, hint;
  for (const std::string& line : split(end.output + end.errors, '\n')) {
    if (line.starts_with(kErrorTitle)) message = line.substr(kErrorTitle.size());
    if (line.find(" ... FAILED (") != std::string::npos) message = line;
    if (line.starts_with(kHintTitle)) hint = line.substr(kHintTitle.size());
  }
  if (message.empty()) message = words + " ended with status " + std::to_string(end.status);
  return {ErrorCode::cluster, printable(message), printable(hint)};
}

}  // namespace

std::string run_lockstep(const std::vector<std::string>& words, std::chrono::seconds limit) {
  std::vector<std::string> command = words;
  command.insert(command.begin(), find_companion("lockstep").value_or("lockstep").string());
  const CommandEnd end = run_command(command, {.limit = limit});
  const std::string text = "lockstep " + join(words, " ");
  if (end.out_of_time)
    throw Error(ErrorCode::timeout, text + " did not end within " + std::to_string(limit.count()) + " s");
  if (end.status == 127)
    throw Error(ErrorCode::not_found,
                "cannot run " + text + ": the program lockstep is neither beside this program nor in PATH",
                "add the folder of the program lockstep to PATH, or install Lockstep on this machine");
  if (end.status != 0) throw error_in(text, end);
  return end.output;
}

}  // namespace lockstep::cluster
