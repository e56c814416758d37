// What a client asks the head of a pool for.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/cluster/profile.h"

namespace lockstep::pool {

struct PoolRequest {
  int64_t launched = 0;        ///< number of members that somebody else starts; 0: a job is to be submitted
  cluster::Profile profile{};  ///< of the job, with the number of workers
  std::string program{};       ///< path of the program on the machines of the cluster
  std::string build{};         ///< what the program must be there (build_of_program); empty: not asked
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("launched", self.launched, "");
    field("profile", self.profile, "");
    field("program", self.program, "");
    field("build", self.build, "");
  };
};

}  // namespace lockstep::pool
