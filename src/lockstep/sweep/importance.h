// How much each parameter mattered for good results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

struct Importance {
  std::string parameter{};
  double share = 0;       ///< of the sum of all divergences; 0 if that is 0
  double divergence = 0;  ///< between the values of the best tenth of the trials and of all
  int64_t trials = 0;     ///< that were trained in full and have the parameter
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("parameter", self.parameter, "");
    field("share", self.share, "");
    field("divergence", self.divergence, "");
    field("trials", self.trials, "");
  };
};

/// With fewer trials that were trained in full the best tenth is one or two, and the figures are chance.
inline constexpr int64_t kFewTrials = 20;

/// PED-ANOVA (Watanabe et al. 2023, and its form for parameters that count only for some trials), by the
/// rules of Optuna 5 (importance/_ped_anova) with its default options. Only trials that were trained in full
/// count. The most important first; a parameter that no such trial has is left out.
std::vector<Importance> importances(const Table& table);

}  // namespace lockstep::sweep
