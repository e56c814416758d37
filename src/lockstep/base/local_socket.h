// Sockets between processes of one user on one machine.
#pragma once

#include <string>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"

namespace lockstep {

/// Listens at an abstract name, which is in no folder and ends with its socket. Others may listen at a name
/// that they know earlier, so draw it at random. Throws io.
Descriptor listen_at_name(const std::string& name);

/// A socket that is connected with the one that listens at the name; sending and connecting time out after
/// two seconds. None, and errno, if nobody listens.
Descriptor connect_to_name(const std::string& name);

/// Whether the kernel says that the process at the other end belongs to this user. It may be in another
/// namespace of processes.
bool peer_is_same_user(const Descriptor& socket);

/// The process at the other end, as the kernel saw it when it connected or began to listen; 0 if it belongs
/// to another user or is not visible from here.
pid_t peer_of_same_user(const Descriptor& socket);

}  // namespace lockstep
