// The program `lockstep`. Environment variables are read here and nowhere else in this folder.
#include <csignal>
#include <cstdlib>

#include "lockstep/cli/program.h"

int main(int argc, char** argv) {
  // A run outlives its readers: a closed pipe is an error to report, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  const char* columns = std::getenv("COLUMNS");
  lockstep::cli::Console console(stdout, stderr, columns == nullptr ? 0 : std::atoi(columns));
  return lockstep::cli::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, console, [](const char* name) { return std::getenv(name); });
}
