// The table of a sweep on a terminal, with keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cli/sweep_table.h"

namespace lockstep::cli {

/// What the person who looks has chosen.
struct SweepView {
  SweepRows rows{};
  int64_t trial = -1;     ///< whose row is marked; -1: the first one
  int64_t first = 0;      ///< row at the top of the screen
  int64_t left_out = 0;   ///< columns behind the first that are not shown, on a narrow screen
  std::string prompt{};   ///< what is asked for; empty: nothing
  std::string typed{};    ///< the answer so far
  std::string message{};  ///< what the last key did
  std::string copy{};     ///< that it is a copy, and of which sweep; empty: it is none
  PlannedTrials planned{};
};

/// The lines of a screen of this size. Moves view.first so that the marked row is seen, and view.trial to a
/// row that is there. Leaves out no more columns than are needed to see the last one.
std::vector<std::string> sweep_screen(const sweep::Table& table, SweepView& view, int width, int height);

/// Shows the sweep until `q` is pressed. Returns the exit status.
int watch_on_terminal(const sweep::SweepPaths& paths, const SweepRows& rows);

}  // namespace lockstep::cli
