#include "lockstep/base/random_hex.h"

#include <algorithm>
#include <cerrno>
#include <sys/random.h>

#include "lockstep/base/error.h"

namespace lockstep {

std::string random_hex(size_t bytes) {
  std::string drawn(bytes, '\0'), text;
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = ::getrandom(drawn.data() + at, bytes - at, 0);
    if (got < 0 && errno != EINTR) throw errno_error(errno, "draw", "a random number");
    at += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  for (const char byte : drawn) {
    const auto value = static_cast<unsigned char>(byte);
    text += {"0123456789abcdef"[value >> 4], "0123456789abcdef"[value & 15]};
  }
  return text;
}

}  // namespace lockstep
