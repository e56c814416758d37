// The error for a word that should name a network.
#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers.h"

namespace lockstep::cli {

/// not_found: "NAME is neither a network nor a run folder", with the nearest built-in network.
inline Error no_network(const std::string& name) {
  const std::string near = did_you_mean(name, nn::builtin_network_names());
  return {ErrorCode::not_found, quote(name) + " is neither a network nor a run folder",
          (near.empty() ? "" : near + " ") +
              "lockstep network list lists the networks, lockstep runs the runs in a folder; the name of a "
              "network's file ends in .json"};
}

}  // namespace lockstep::cli
