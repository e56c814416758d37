// The program `lockstep`. It does not link LibTorch, so that it starts fast. For a command that needs
// LibTorch it becomes lockstep-engine, in the same process.
#include <cerrno>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/cli/program.h"

namespace {

[[noreturn]] void become_engine(const lockstep::cli::Verb& verb, char** argv) {
  const auto engine = lockstep::find_companion("lockstep-engine");
  if (!engine)
    throw lockstep::Error(
        lockstep::ErrorCode::not_found,
        "cannot run lockstep " + verb.name +
            ": the program lockstep-engine is neither beside lockstep nor in ../lib/lockstep",
        "build the target \"program\", or install Lockstep with cmake --install");
  ::execv(engine->c_str(), argv);
  throw lockstep::errno_error(errno, "start", engine->string());
}

}  // namespace

int main(int argc, char** argv) {
  using lockstep::cli::Call;
  using lockstep::cli::Console;
  using lockstep::cli::Verb;
  return lockstep::cli::run_main(
      argc, argv, [argv](const Verb& verb, const Call&, Console&) -> int { become_engine(verb, argv); });
}
