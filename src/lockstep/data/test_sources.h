// What a path opens as: the samples with their classes, or the reason why it is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/sources.h"

namespace lockstep::data::test {

/// The Error of open_source with its hint; empty if the path is opened.
inline std::string open_failure(const std::filesystem::path& path, const SourceOptions& options = {}) {
  try {
    open_source(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// "cat/1.png=cat" for each sample, its path relative to root; "-": it has no class.
inline std::vector<std::string> listed(const Dataset& dataset, const std::filesystem::path& root) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const int64_t label = dataset.store().label(i);
    lines.push_back(std::filesystem::path(dataset.store().source(i)).lexically_relative(root).string() + "=" +
                    (label < 0 ? "-" : dataset.classes()[static_cast<size_t>(label)]));
  }
  return lines;
}

}  // namespace lockstep::data::test
