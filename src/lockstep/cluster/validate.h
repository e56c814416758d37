// Tries a profile, stage by stage: whether jobs can be submitted, start, meet, send gradients and be
// cancelled.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "lockstep/cluster/profile.h"

namespace lockstep::cluster {

/// What became of a stage.
struct Stage {
  std::string name;
  bool passed = false;
  double seconds = 0;
  std::string detail{};  ///< what was found, or why it failed
  std::string hint{};    ///< what to do about it
};

struct Trial {
  std::filesystem::path folder;  ///< for the files of the trial, on a disk that all machines see; may be made
  std::chrono::seconds patience{300};                ///< for the trial's job to start
  std::function<void(const std::string&)> begins{};  ///< called with the name of a stage that begins
  std::function<void(const Stage&)> ended{};
};

/// Stops after the first stage that fails, and cancels what it submitted. Whether all passed.
bool validate(const Profile& profile, const Trial& trial);

}  // namespace lockstep::cluster
