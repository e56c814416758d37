// Sockets of a group: where a rank listens, and at which of its addresses others can reach it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/descriptor.h"

namespace lockstep::comm {

/// What failed with which address, for messages: "cannot listen at 10.0.0.1:29500: Address already in use".
struct SocketFailure {
  std::string why;
  int reason = 0;  ///< errno; 0 if the name is not known
};

/// Listens at this address only, so a group on 127.0.0.1 cannot be reached from outside; port 0: a free port.
/// Throws SocketFailure.
Descriptor listen_at(const std::string& address, uint16_t port);
uint16_t port_of(const Descriptor& listening);

/// Throws SocketFailure.
Descriptor connect_to(const std::string& address, uint16_t port, std::chrono::milliseconds timeout);

/// The first address of a name, in numbers; nothing if the name is not known.
std::optional<std::string> address_of_name(const std::string& name);
/// This machine's address from which packets to `address` are sent: the loopback for a name of the loopback.
/// Throws SocketFailure.
std::string own_address_towards(const std::string& address, uint16_t port);
/// The address of a network interface, IPv4 before IPv6. Throws SocketFailure.
std::string address_of_interface(const std::string& name);
bool is_loopback(const std::string& address);

}  // namespace lockstep::comm
