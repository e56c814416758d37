// The program `lockstep`. Environment variables are read here and nowhere else in this folder.
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "lockstep/cli/program.h"
#include "lockstep/device/memory.h"

namespace {

// A closed one would be given to the next file that is opened, and what is printed would go there. Reading
// and writing stay errors.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  lockstep::device::keep_freed_memory();
  // A run outlives its readers: a closed pipe is an error to report, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  const char* columns = std::getenv("COLUMNS");
  lockstep::cli::Console console(stdout, stderr, columns == nullptr ? 0 : std::atoi(columns));
  return lockstep::cli::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, console,
                                    [](const char* name) { return std::getenv(name); });
}
