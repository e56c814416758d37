// A file that a sink is writing, beside the place where it is wanted.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"

namespace lockstep::io {

/// Has a name of its own, which no other process has, until finish() gives it `path`; gone without that.
/// Throws io, not_found.
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

/// Whether a file of this name in a folder is a PartFile: no data yet, or what a process that was killed has
/// left.
bool is_part_name(std::string_view name);

/// Removes what processes that were killed have left in a folder; what one is writing stays.
void remove_left_parts(const std::string& folder);

}  // namespace lockstep::io
