// Sockets between processes of one user on one machine.
#pragma once

#include <string>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"

namespace lockstep {

/// Listens at an abstract name, which is in no folder and ends with its socket. Others may listen at a name
/// that they know before: draw it. Throws io.
Descriptor listen_at_name(const std::string& name);

/// A socket that is connected with the one that listens at the name; sending and connecting end after two
/// seconds. None, and errno, where nobody listens.
Descriptor connect_to_name(const std::string& name);

/// Whether the process at the other end is one of this user's, as the kernel says. It may be in another
/// namespace of processes.
bool peer_is_same_user(const Descriptor& socket);

/// The process at the other end, as the kernel saw it when it connected or began to listen; 0 where it is
/// another user's or cannot be seen from here.
pid_t peer_of_same_user(const Descriptor& socket);

}  // namespace lockstep
