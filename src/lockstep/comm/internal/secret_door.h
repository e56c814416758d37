// How ranks on one machine get a secret when no launcher gave them one: rank 0 draws it and gives it to
// processes of the same user. The kernel tells the user of each process that asks.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/comm/internal/seal.h"

namespace lockstep::comm {

/// Rank 0's side: a thread that gives the secret to processes of this user while this object lives.
class SecretDoor {
 public:
  /// Throws io.
  explicit SecretDoor(const Secret& secret);
  ~SecretDoor();
  SecretDoor(const SecretDoor&) = delete;
  SecretDoor& operator=(const SecretDoor&) = delete;

  /// Where to ask; it need not be secret.
  const std::string& name() const { return name_; }

 private:
  void run() const;

  const Secret secret_;
  const std::string name_;
  const Descriptor listening_;
  const Descriptor finished_;
  std::thread thread_;
};

/// Whether it can be the name of a door: anybody may have written it.
bool is_door(const std::string& name);

/// The other ranks' side. Nothing if no process of the same user gives a secret at this name. Takes at most
/// two seconds.
std::optional<Secret> ask_at_door(const std::string& name);

}  // namespace lockstep::comm
