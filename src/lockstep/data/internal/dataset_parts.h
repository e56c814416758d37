// Folders such as train, val and test, which are parts of a dataset and no classes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Whether a folder of this name is usually a part of a dataset.
bool is_dataset_part(std::string_view name);

/// The parts of one image folder.
struct DatasetParts {
  std::vector<std::string> labelled;    ///< train, of train/cat/1.png
  std::vector<std::string> unlabelled;  ///< test, of test/1.png

  void sort();

  /// Throws invalid_option if a part would become a class: beside labelled parts, or if all classes are
  /// parts.
  void check(const std::string& root, size_t class_count) const;

  /// That the parts are used as one, and the command that uses them separately; empty if there is one at
  /// most.
  std::string warning(const std::string& root) const;
};

}  // namespace lockstep::data
