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
/// ones. A body of more than 8 MiB is refused.
class Server {
 public:
  /// Called with the head of a request, so that nothing more is read of one that is refused; by several
  /// threads at once. Slow answers have threads of their own, so that other requests are answered meanwhile;
  /// of too many at once some are refused.
  using Find = std::function<Answering(const Request& head)>;

  /// Begins to listen; answers nothing before start(). port 0: any free one. Throws io.
  Server(const std::string& address, uint16_t port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;

  /// Once.
  void start(Find find);

  /// Ends all connections and waits for the answers under way.
  void stop();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::studio
