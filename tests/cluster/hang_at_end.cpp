// Preloaded into a rank, it hangs when the process ends, as a driver or a network library may: the rank of
// Slurm that LOCKSTEP_HANGING_RANK names, if it is the engine. With LOCKSTEP_HANGING_HOW=stopped no thread of
// it runs on.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

bool is_it() {
  const char* wanted = std::getenv("LOCKSTEP_HANGING_RANK");
  const char* rank = std::getenv("SLURM_PROCID");
  return wanted != nullptr && rank != nullptr && std::strcmp(wanted, rank) == 0 &&
         std::strcmp(program_invocation_short_name, "lockstep") == 0 &&
         std::getenv("LOCKSTEP_SECRET") != nullptr;
}

}  // namespace

__attribute__((destructor)) static void hang() {
  if (!is_it()) return;
  const char* how = std::getenv("LOCKSTEP_HANGING_HOW");
  if (how != nullptr && std::strcmp(how, "stopped") == 0) std::raise(SIGSTOP);
  while (true) ::pause();
}
