// Folders such as train, val_images and test1, which are parts of a dataset and no classes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Whether a word of this name is the usual one for a part of a dataset: "seg_train", "Test-1".
bool is_dataset_part(std::string_view name);

/// How messages call the samples, and the file of one.
struct SampleWords {
  const char* plural = "images";
  const char* file = "1.png";
};

/// The name of the table that has the classes of a folder's images; empty: there is none. It is only asked
/// for messages, because to answer may take long.
using FindTable = std::function<std::string()>;

/// A hint that names the table, if there is one, before `hint`.
std::string or_table(const std::string& hint, const FindTable& find_table);

/// The parts of one folder of class folders.
class DatasetParts {
 public:
  DatasetParts() = default;
  explicit DatasetParts(SampleWords words) : words_(words) {}

  /// A folder below the root that has samples, in itself or below only. Any order gives the same words.
  void add(std::string_view path, bool has_samples_itself);

  /// Throws invalid_option if folders at the root with just such a name would become classes: beside parts
  /// with class folders, or if all classes are such parts.
  void check(const std::string& root, size_t class_count, const FindTable& find_table = {}) const;

  /// That parts are used as one, or as classes, or that classes in different folders are used as one, and
  /// what takes them apart; empty if nothing of this is so.
  std::string warning(const std::string& root, const std::vector<std::string>& classes,
                      const FindTable& find_table = {}) const;

 private:
  // The folders in one folder that are parts; paths in the order of their bytes.
  struct Level {
    std::vector<std::string> labelled = {};    // with class folders: train, of train/cat/1.png
    std::vector<std::string> unlabelled = {};  // with samples: test, of test/1.png
    bool has_others = false;
  };
  struct ClassFolders {
    std::string first, last;  // in the order of their bytes
    int64_t count = 0;
  };

  std::string used_as_one(const std::string& root) const;
  std::string used_as_classes(const std::string& root, const std::vector<std::string>& classes,
                              const FindTable& find_table) const;
  std::string merged(const std::string& root) const;
  std::string own_folders(const std::string& folder) const;

  SampleWords words_;
  std::map<std::string, Level, std::less<>> levels_;
  std::map<std::string, ClassFolders, std::less<>> classes_;
};

}  // namespace lockstep::data
