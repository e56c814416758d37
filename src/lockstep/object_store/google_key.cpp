#include "lockstep/object_store/google_key.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <netdb.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"

namespace lockstep::object_store {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAnswerTime{2000};
// metadata.google.internal as a number, because without a name server asking for the name takes longer than
// everything else.
constexpr const char* kMetadataServer = "169.254.169.254";
constexpr const char* kKeyFile = ".config/gcloud/application_default_credentials.json";
constexpr const char* kHint =
    "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key file; a "
    "public bucket is gs://anonymous@BUCKET/FOLDER";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool has_key_file() {
  const std::string elsewhere = variable("GOOGLE_GCLOUD_ADC_PATH_OVERRIDE"), home = variable("HOME");
  std::error_code ignored;
  return std::filesystem::exists(
      elsewhere.empty() ? std::filesystem::path(home) / kKeyFile : std::filesystem::path(elsewhere), ignored);
}

bool becomes(const Descriptor& socket, short event, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  pollfd entry{.fd = socket.get(), .events = event, .revents = 0};
  return left > 0 && ::poll(&entry, 1, static_cast<int>(left)) == 1;
}

Descriptor connect_to(const std::string& server, Clock::time_point end) {
  const size_t colon = server.rfind(':');
  const std::string host = server.substr(0, colon),
                    port = colon == std::string::npos ? "80" : server.substr(colon + 1);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return {};
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool begun =
      socket && (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
  ::freeaddrinfo(found);
  int error = 0;
  socklen_t bytes = sizeof error;
  if (!begun || !becomes(socket, POLLOUT, end) ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0)
    return {};
  return socket;
}

// Other clouds have such a service at the same address; Google's identifies itself.
bool has_role(const std::string& server) {
  const Clock::time_point end = Clock::now() + kAnswerTime;
  const Descriptor socket = connect_to(server, end);
  const std::string question =
      "GET / HTTP/1.1\r\nHost: metadata.google.internal\r\nMetadata-Flavor: Google\r\nConnection: "
      "close\r\n\r\n";
  if (!socket || ::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) !=
                     static_cast<ssize_t>(question.size()))
    return false;
  std::string answer;
  std::array<char, 1024> piece;
  constexpr size_t kMost = 16 << 10;
  while (answer.size() < kMost && becomes(socket, POLLIN, end)) {
    const ssize_t got = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (got <= 0) break;
    answer.append(piece.data(), static_cast<size_t>(got));
    if (answer.find("Metadata-Flavor: Google") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void require_google_key(const std::string& name) {
  const std::string begin = "cannot open \"" + name + "\": ";
  if (const std::string file = variable("GOOGLE_APPLICATION_CREDENTIALS"); !file.empty()) {
    if (std::filesystem::exists(file)) return;
    throw Error(ErrorCode::invalid_option,
                begin + "GOOGLE_APPLICATION_CREDENTIALS names \"" + file + "\", which is not there", kHint);
  }
  if (has_key_file()) return;
  const std::string chosen = variable("GCE_METADATA_ROOT"),
                    server = chosen.empty() ? kMetadataServer : chosen;
  if (has_role(server)) return;
  throw Error(ErrorCode::invalid_option,
              begin + "no key was found: GOOGLE_APPLICATION_CREDENTIALS is not set, there is no ~/" +
                  kKeyFile + ", and no role is given to this machine at " + server,
              kHint);
}

}  // namespace lockstep::object_store
