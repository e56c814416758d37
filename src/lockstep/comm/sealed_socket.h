// A connection over a network whose bytes are encrypted and authenticated: only two programs that know the
// same secret can make it, and nobody else can read, change, repeat or drop a part of what goes through it.
// The keys belong to the connection (X25519 with the secret mixed in), so that who learns the secret later
// cannot read what was recorded. Bytes are sealed with libsodium's secretstream (XChaCha20-Poly1305).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"

namespace lockstep::comm {

/// One end. It never waits: the owner polls socket() and calls flush() and receive(). One thread at a time.
class SealedSocket {
 public:
  /// The end that connected, or the one that was connected to.
  enum class Side { caller, listener };
  /// Takes a connected TCP socket. Throws internal if libsodium does not start.
  SealedSocket(Descriptor socket, Side side, std::string_view secret);
  ~SealedSocket();
  SealedSocket(SealedSocket&&) noexcept;
  SealedSocket& operator=(SealedSocket&&) noexcept;

  int socket() const;
  /// The other end has shown that it knows the secret.
  bool is_open() const;
  /// The connection has ended, or the other end was refused.
  bool closed() const;
  /// Why the other end was refused: "it does not know the secret". Empty if it was not.
  const std::string& refusal() const;

  /// Queues bytes. They are sent once the connection is open.
  void put(std::string_view bytes);
  /// Bytes that wait to be sent.
  size_t unsent() const;
  bool has_to_send() const;
  /// Sends what the socket accepts now. False when the connection has ended.
  bool flush();
  /// Adds the bytes that have arrived to `bytes`. False when the connection has ended; what arrived before is
  /// added first.
  bool receive(std::string& bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Listens on all of this machine's addresses, at a free port. Throws communication.
Descriptor listen_everywhere(uint16_t& port);

/// This machine's addresses that others can reach, in numbers; those of `interface` alone, if it is not
/// empty.
std::deque<std::string> addresses_of_machine(const std::string& interface);

/// Connects to the address. Throws communication.
Descriptor connect_to_address(const std::string& address, uint16_t port);

/// This end's address of a connected socket, in numbers.
std::string own_address_of(int socket);
/// The other end's.
std::string others_address_of(int socket);

}  // namespace lockstep::comm
