// A sweep as parallel coordinates: an axis for each parameter and one for the result, a line for each trial.
#pragma once

#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// From low, at place 0, to high, at place 1. Choice i of n is at (i + 1/2) / n.
struct ParallelAxis {
  std::string name{};
  bool log = false;
  double low = 0;
  double high = 1;
  std::vector<std::string> choices{};  ///< empty: numbers
  int64_t beyond = 0;                  ///< trials whose value is beyond the axis; their lines go to its end
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "");
    field("log", self.log, "");
    field("low", self.low, "");
    field("high", self.high, "");
    field("choices", self.choices, "");
    field("beyond", self.beyond, "");
  };
};

struct ParallelLine {
  int64_t trial = 0;
  TrialState state = TrialState::ended;
  double result = 0;
  double rank = 0;  ///< among the results: 0 the best, 1 the worst
  std::vector<double>
      places{};  ///< on each axis, in [0, 1]; NaN (null in JSON) where a parameter does not count
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("trial", self.trial, "");
    field("state", self.state, "");
    field("result", self.result, "");
    field("rank", self.rank, "");
    field("places", self.places, "");
  };
};

struct ParallelCoordinates {
  std::vector<ParallelAxis> axes{};   ///< in the order of the space; the result is the last
  std::vector<ParallelLine> lines{};  ///< of trials that have a result; the best first
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("axes", self.axes, "");
    field("lines", self.lines, "");
  };
};

ParallelCoordinates parallel_coordinates(const Table& table);

/// The results that axes show: all but those that are far worse than the better half of the trials, as of
/// trainings that diverged. They would leave the others no room.
struct ShownResults {
  double low = 0;
  double high = 1;
  int64_t beyond = 0;  ///< trials that have another result
};
/// Of trials that have a result and have not failed.
ShownResults shown_results(const Table& table);

}  // namespace lockstep::sweep
