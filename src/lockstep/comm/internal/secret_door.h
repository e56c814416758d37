// How ranks on one machine that no launcher gave a secret come to one: rank 0 draws it and gives it to
// whoever asks and is of the same user, as the kernel says.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/comm/internal/seal.h"

namespace lockstep::comm {

/// Rank 0's side: a thread that gives the secret away while this lives.
class SecretDoor {
 public:
  /// Throws io.
  explicit SecretDoor(const Secret& secret);
  ~SecretDoor();
  SecretDoor(const SecretDoor&) = delete;
  SecretDoor& operator=(const SecretDoor&) = delete;

  /// Where to ask; need not be secret.
  const std::string& name() const { return name_; }

 private:
  void run() const;

  const Secret secret_;
  const std::string name_;
  const Descriptor listening_;
  const Descriptor finished_;
  std::thread thread_;
};

/// Whether it can be a door's name: what is said of one comes from anybody.
bool is_door(const std::string& name);

/// The other ranks' side: nothing where nobody of the same user gives one at this name. Takes two seconds at
/// most.
std::optional<Secret> ask_at_door(const std::string& name);

}  // namespace lockstep::comm
