// Asks AWS: through boto3, and through ParallelCluster's own command, both in a Python of their own. Keys
// come from AWS's chain and never pass through Lockstep.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/json.h"

namespace lockstep::cloud {

class AwsBridge {
 public:
  /// python: folder of the virtual environment, which may be missing until the first call.
  explicit AwsBridge(std::filesystem::path python) : python_(std::move(python)) {}
  /// In the folder of Lockstep's caches.
  static AwsBridge of_user();

  /// A function of scripts/aws.py with its arguments. Throws cluster with AWS's reason and a hint;
  /// invalid_option for a wrong region, type, key pair or subnet; not_found if there is no Python.
  Json ask(const std::string& command, const std::string& region, Json request) const;

  /// The command pcluster. Throws cluster with its message.
  Json parallel_cluster(std::vector<std::string> words, const std::string& region) const;

  /// Makes the Python with what it needs (from PyPI), or does nothing if it is there. Returns its folder.
  std::filesystem::path install() const;
  bool is_there() const;

 private:
  std::filesystem::path python_;
};

}  // namespace lockstep::cloud
