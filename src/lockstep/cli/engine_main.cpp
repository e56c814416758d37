// The program `lockstep-engine`: `lockstep` with the commands that need LibTorch.
#include <cstdlib>

#include "lockstep/cli/engine.h"
#include "lockstep/device/memory.h"

int main(int argc, char** argv) {
  lockstep::device::keep_freed_memory();
  return lockstep::cli::run_main(
      argc, argv, lockstep::cli::engine_commands([](const char* name) { return std::getenv(name); }));
}
