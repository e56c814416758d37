// A file that is being written under a temporary name next to its destination.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"

namespace lockstep::io {

/// The temporary name is unique among processes. finish() renames the file to `path`; without it the file is
/// removed. Throws io, not_found.
class PartFile {
 public:
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  OpenFile& file() { return file_; }
  void finish();

 private:
  const std::string path_;
  OpenFile file_;
  bool finished_ = false;
};

/// Whether a file name is that of a PartFile, which is still being written or was left by a killed process.
bool is_part_name(std::string_view name);

/// Removes the part files that killed processes left in a folder; files that are being written stay.
void remove_left_parts(const std::string& folder);

}  // namespace lockstep::io
