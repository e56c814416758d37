// Many trainings at once on one terminal: a progress line and a curve for each.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "lockstep/io/event.h"

namespace lockstep::view {

/// On a terminal the trials under way are a block of lines that is redrawn; a trial that ends leaves its line
/// above. Elsewhere a line for each validation and each end. One thread at a time. Nothing is hidden or moved
/// that an interrupted program would have to restore.
class Trials {
 public:
  explicit Trials(std::FILE* out);
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;
  /// What is on the screen stays.
  ~Trials();

  /// An event of the trial of this name, which appears with its first event.
  void show(const std::string& name, const io::Event& event);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::view
