// The program `lockstep-engine`: `lockstep` with the commands that need LibTorch.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "lockstep/cli/engine.h"
#include "lockstep/device/memory.h"

namespace {

// Sanitizers and profilers, preloaded or called by CUDA, write what they have found when a process ends.
bool somebody_waits_for_the_end() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return std::getenv("LD_PRELOAD") != nullptr || std::getenv("CUDA_INJECTION64_PATH") != nullptr;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::device::keep_freed_memory();
  const int status = lockstep::cli::run_main(
      argc, argv, lockstep::cli::engine_commands([](const char* name) { return std::getenv(name); }));
  if (somebody_waits_for_the_end()) return status;
  // LibTorch's destructors take every operator apart, for a third of the time of a short command.
  std::fflush(nullptr);
  ::_exit(status);
}
