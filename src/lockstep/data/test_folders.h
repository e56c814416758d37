// Folders for the tests of this module: temporary ones, and the data that comes with the project.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/base/test_folder.h"

namespace lockstep::data::test {

using lockstep::test::TemporaryFolder;

inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("LOCKSTEP_SOURCE");
  return folder == nullptr ? std::filesystem::current_path() : std::filesystem::path(folder);
}

/// A file of the data outside the project. Throws if it is missing, so that a test without its data fails.
inline std::filesystem::path test_data(const std::string& name) {
  const char* folder = std::getenv("LOCKSTEP_TEST_DATA");
  const std::filesystem::path path =
      (folder == nullptr ? source_folder() / "../shared/data" : std::filesystem::path(folder)) / name;
  if (!std::filesystem::exists(path))
    throw std::runtime_error("test data is missing: " + path.string() + " (set LOCKSTEP_TEST_DATA)");
  return path;
}

/// Unpacks an archive, or some members of it, into a folder.
inline void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
                   const std::string& members = "") {
  if (!std::filesystem::exists(archive))
    throw std::runtime_error("test data is missing: " + archive.string() + " (set LOCKSTEP_SOURCE)");
  const std::string command = "tar xf '" + archive.string() + "' -C '" + folder.string() + "' " + members;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

/// The digits of the project: 10,000 PNG files in ten folders, unpacked once per program.
inline const std::filesystem::path& digits_folder() {
  static const TemporaryFolder folder;
  static const std::filesystem::path digits = [] {
    unpack(source_folder() / "data/digits-png.tar.gz", folder.path());
    return folder.path() / "digits";
  }();
  return digits;
}

}  // namespace lockstep::data::test
