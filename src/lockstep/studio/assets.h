// The files of the pages, which are built into the program.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::studio {

struct Asset {
  std::string_view path;  ///< "/studio.css"
  std::string_view type;
  std::string_view bytes;
};

/// assets.cmake makes it from the files that CMakeLists.txt lists.
std::span<const Asset> assets();

}  // namespace lockstep::studio
