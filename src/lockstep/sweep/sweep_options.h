// What a user may ask of a sweep. Each option is described here once.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/sweep/search.h"

namespace lockstep::sweep {

enum class Goal { auto_, maximize, minimize };
constexpr std::array<const char*, 3> enum_names(Goal) { return {"auto", "maximize", "minimize"}; }

/// Where the trials of this machine are trained.
enum class TrialsAs {
  auto_,
  threads,   ///< of one process, with one copy of the data
  processes  ///< each is one
};
constexpr std::array<const char*, 3> enum_names(TrialsAs) { return {"auto", "threads", "processes"}; }

/// Trials where --count is 0, as its description says; of a grid it has all points.
inline constexpr int64_t kUsualTrials = 20;

struct SweepOptions {
  SearchKind search = SearchKind::tpe;
  int64_t count = 0;
  int64_t seed = 0;
  int64_t grid_steps = 5;
  std::string metric{};
  Goal goal = Goal::auto_;
  StopRule stop_rule = StopRule::none;
  int64_t first_rung = 0;
  int64_t reduction = 3;
  int64_t lag = 8;
  bool free = false;
  int64_t trials = 0;
  int64_t workers = 1;
  TrialsAs trials_as = TrialsAs::auto_;
  std::string memory{};
  std::string profile{};
  int64_t retries = 3;
  int64_t keep_weights = 5;
  std::string output{};
  bool resume = false;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Search");
    field("search", self.search,
          "how parameters are chosen; tpe and gp learn from earlier trials, by a tree of Parzen estimators "
          "or a "
          "Gaussian process");
    field("count", self.count,
          "number of trials; 0: 20, or all points of a grid, which a space of up to 20 points is if --search "
          "is not "
          "given",
          between(0, 1e6));
    field("seed", self.seed, "seed of the search", between(0, 1e15));
    field("grid-steps", self.grid_steps, "grid: values of each range", between(1, 1e6));
    field("metric", self.metric,
          "what is searched for; of train: best_accuracy (the default), accuracy, loss or test_accuracy; of "
          "another program: a name, whose value is read from the last line of output with NAME VALUE, "
          "NAME=VALUE or NAME: VALUE");
    field("goal", self.goal, "auto: minimize if the name of the metric has loss or error in it");
    field("Early ends");
    field("stop-rule", self.stop_rule,
          "end bad trials early; asha: at each rung only the best 1/--reduction go on; median: a trial ends "
          "if it is worse than the median of earlier trials at its rung");
    field("first-rung", self.first_rung,
          "steps to the first rung; each later one is --reduction times as far", between(0, 1e12));
    field("reduction", self.reduction, "factor between the steps of two rungs", between(2, 1000));
    field("Side by side");
    field("trials", self.trials,
          "trials at the same time; 0: the cores of this machine or the workers of the profile, divided by "
          "--workers",
          between(0, 1024));
    field("workers", self.workers, "workers of each trial", between(1, 4096));
    field("trials-as", self.trials_as,
          "threads: of one process, which has one copy of the data; processes: each trial is one, so that a "
          "crash ends no other; auto: threads for train");
    field("memory", self.memory,
          "memory of all trials on threads and of the images that they share, such as 8G, or of each GPU on "
          "which they train; a trial that does not fit waits; empty: most of what is free");
    field("profile", self.profile,
          "train trials as jobs of this profile, which go on without this program (lockstep cluster list); "
          "empty: with "
          "this program");
    field("lag", self.lag,
          "a trial's parameters depend on the results of those trials that are more than this number before "
          "it, so that the same trials are made for any --trials; more than that cannot run at once",
          between(0, 1024));
    field("free", self.free,
          "use each result as soon as it is there: no worker waits, but another sweep gives other trials");
    field("retries", self.retries, "how often a trial that was killed or ran out of memory starts again",
          between(0, 1000));
    field("Output");
    field("output", self.output, "folder of the sweep; default: sweeps/sweep-001, sweep-002, ...");
    field("keep-weights", self.keep_weights,
          "only this number of best trials keep weights and checkpoints; 0: all do", between(0, 1e6));
    field("resume", self.resume,
          "continue the sweep in --output; repeating a command that names --output does the same");
  };
};

}  // namespace lockstep::sweep
