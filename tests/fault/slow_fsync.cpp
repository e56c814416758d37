// Preloaded into the program, it makes a slow disk: each fsync first waits LOCKSTEP_FSYNC_MILLISECONDS, so
// that a test can kill the program while a checkpoint is being written.
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int fsync(int descriptor) {
  const char* text = std::getenv("LOCKSTEP_FSYNC_MILLISECONDS");
  const long milliseconds = text == nullptr ? 0 : std::atol(text);
  const timespec wait{milliseconds / 1000, milliseconds % 1000 * 1000000};
  ::nanosleep(&wait, nullptr);
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
