#include "lockstep/studio/index_page.h"

#include "lockstep/studio/assets.h"

namespace lockstep::studio {

std::string index_page(std::string_view page) {
  std::string links;
  for (const Asset& asset : assets()) {
    const bool is_module = asset.path.ends_with(".js") && asset.path != "/worker.js";
    if (is_module && page.find(asset.path) == std::string_view::npos)
      links += "<link rel=\"modulepreload\" href=\"" + std::string(asset.path) + "\">\n";
  }
  const size_t end_of_head = page.find("</head>");
  return std::string(page.substr(0, end_of_head)) + links + std::string(page.substr(end_of_head));
}

}  // namespace lockstep::studio
