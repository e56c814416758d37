// Shared by the tests of this module.
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/nn/layers.h"

namespace lockstep::nn {

/// The text of the Error that `work` throws, or empty.
inline std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The error message for this network with images of `input`; empty if it fits.
inline std::string complaint(const std::string& json, const NetworkInput& input = {}) {
  return error_of([&] { inspect_network(read_network(Json::parse(json), "net"), input); });
}

/// The output shapes of a network's layers, in order of evaluation.
inline std::vector<std::vector<int64_t>> shapes_of(const std::string& json, const NetworkInput& input = {}) {
  std::vector<std::vector<int64_t>> shapes;
  for (const LayerRow& row : inspect_network(read_network(Json::parse(json), "net"), input).rows)
    shapes.push_back(row.shape);
  return shapes;
}

}  // namespace lockstep::nn
