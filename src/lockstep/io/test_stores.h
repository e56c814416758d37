// Files for the tests of stores, and what a store gives.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::io::test {

inline std::map<std::string, std::string> contents_of(const ByteStore& store) {
  std::map<std::string, std::string> contents;
  store.list(Sizes::wanted, [&](const Listed& listed) {
    if (listed.kind != Listed::Kind::file) return true;
    const std::string path(listed.path);
    contents[path] = store.read({path, listed.size}, 1 << 20);
    EXPECT_EQ(static_cast<int64_t>(contents[path].size()), listed.size);
    EXPECT_EQ(store.read({path}, 1 << 20), contents[path]);
    return true;
  });
  return contents;
}

template <class Work>
std::string failure(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline std::string opening(const std::filesystem::path& path, const StoreOptions& options = {}) {
  return failure([&] { contents_of(*open_store(path.string(), options)); });
}

inline const std::map<std::string, std::string> kFiles{
    {"cat/1.jpg", "one"},        {"cat/deep/er/2.jpg", std::string(100000, 'x')},
    {"dog/ü &%\".jpg", "three"}, {"dog/empty", ""},
    {"notes.txt", "n"},          {std::string(150, 'l') + "/" + std::string(120, 'n'), "long"}};

inline void fill(const std::filesystem::path& folder) {
  for (const auto& [path, bytes] : kFiles) {
    make_folders((folder / path).parent_path());
    write_file_atomic(folder / path, bytes);
  }
}

inline void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

}  // namespace lockstep::io::test
