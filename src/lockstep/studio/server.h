// HTTP on one port of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/studio/message.h"

namespace lockstep::studio {

/// Answers requests on threads of its own from its making until it is destroyed. A connection that is silent
/// or too slow is closed. Beyond a few hundred, so are those that wait longest for a request, and else new
/// ones.
class Server {
 public:
  /// Called by several threads at once. What it throws becomes the answer (error_response).
  using Handler = std::function<Response(const Request&)>;
  /// Whether the handler may take seconds or minutes. Such requests have threads of their own, so that others
  /// are answered meanwhile; of too many at once some are refused.
  using IsSlow = std::function<bool(const Request&)>;

  /// Begins to listen; answers nothing before start(). port 0: any free one. Throws io.
  Server(const std::string& address, uint16_t port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;

  /// Once.
  void start(Handler handler, IsSlow is_slow);

  /// Ends all connections and waits for the handlers.
  void stop();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::studio
