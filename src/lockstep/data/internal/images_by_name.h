// The images of a folder, by the names that a table has for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lockstep/data/internal/files.h"

namespace lockstep::data {

/// Whether names have their endings, such as .jpg.
enum class Endings { written, left_out };

/// By their paths, which may be whole, and by their file names where these differ. The files must outlive it.
/// Any thread.
class ImagesByName {
 public:
  ImagesByName(const Files& files, Endings endings);

  bool has(std::string_view image) const { return look_for(image).has_value(); }
  /// Null: there is none, or there are several of this name.
  const Files::Name* find(std::string_view image) const { return look_for(image).value_or(nullptr); }

 private:
  std::string relative(std::string_view image) const;
  std::optional<const Files::Name*> look_for(std::string_view image) const;

  const bool is_at_address_;
  const std::string folder_;  // with a slash at the end
  std::unordered_map<std::string_view, const Files::Name*> by_path_, by_file_name_;
};

}  // namespace lockstep::data
