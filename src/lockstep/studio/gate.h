// Decides who may ask. Other web pages, other users of the machine and names that lead to it from outside are
// kept out.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/studio/message.h"

namespace lockstep::studio {

/// Any thread.
class Gate {
 public:
  /// address, port: where the server listens
  Gate(std::string address, uint16_t port);

  /// The answer to a request that may not pass, or that logs in with ?token=. Nothing for one that may pass:
  /// it has the cookie, a Host that is this machine, and the Origin of our own pages, if any. What changes
  /// something (POST) must have that Origin, and a body in JSON. A server that others reach has any address
  /// as Host, since no name server chooses it, and the names of this machine.
  std::optional<Response> stop(const Request& request);

  /// What a user opens: http://127.0.0.1:8761/?token=...
  std::string address_with_token() const;
  /// The same with a code that is accepted once, for some minutes: a browser that is started with it shows it
  /// in the process list or in a file.
  std::string address_with_code();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_known_host(const std::string& host) const;
  bool is_for_others() const;
  bool has_cookie(const Request& request) const;
  std::optional<Response> log_in(const Request& request);
  std::string base() const;

  std::string address_;
  std::vector<std::string> names_;  // in small letters
  std::string port_;
  std::string token_;
  std::string cookie_;  // its name
  std::mutex mutex_;
  std::string code_;  // empty: none, or it was used
  Clock::time_point code_ends_;
};

}  // namespace lockstep::studio
