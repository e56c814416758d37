#include "lockstep/base/host.h"

#include <array>
#include <memory>
#include <netdb.h>
#include <unistd.h>

namespace lockstep {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string full_host_name() {
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host_name().c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return found->ai_canonname == nullptr ? "" : found->ai_canonname;
}

}  // namespace lockstep
