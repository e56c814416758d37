// What a command says to the program on a login node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cluster/profile.h"

namespace lockstep::cli {

/// Before the name of a file that travels with a message.
inline constexpr const char* kRelayedPlace = "@relayed/";

/// The first line of a message; the bytes of its files follow.
struct RelayMessage {
  std::string build{};
  std::vector<std::string> words{};
  std::string name{};  ///< of the profile
  cluster::Profile profile{};
  std::vector<std::string> secrets{};  ///< NAME=value; never on a command line
  std::vector<std::string> files{};    ///< names
  std::vector<int64_t> sizes{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("build", self.build, "of the program that asks");
    field("words", self.words, "the command");
    field("name", self.name, "of the profile there");
    field("profile", self.profile, "");
    field("secrets", self.secrets, "");
    field("files", self.files, "");
    field("sizes", self.sizes, "");
  };
};

}  // namespace lockstep::cli
