// Several trainings on one terminal: a progress line and a curve for each.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "lockstep/record/event.h"

namespace lockstep::view {

/// On a terminal the running trials are a block of lines that is redrawn; when a trial ends, its line stays
/// above the block, with its error if it has failed. Elsewhere it prints a line for each validation and each
/// end. One thread at a time. It never hides the cursor or changes the terminal, so an interrupted program
/// need not restore anything.
class Trials {
 public:
  explicit Trials(std::FILE* out);
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;
  /// What is on the screen stays there.
  ~Trials();

  /// An event of the trial of this name. A trial appears with its first event.
  void show(const std::string& name, const record::Event& event);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::view
