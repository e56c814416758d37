#include "lockstep/studio/index_page.h"

#include "lockstep/base/hash.h"
#include "lockstep/studio/assets.h"

namespace lockstep::studio {
namespace {

std::string attribute(std::string_view path) { return "\"" + std::string(path) + "\""; }

}  // namespace

const std::string& kept_prefix() {
  static const std::string prefix = [] {
    uint64_t hash = 0;
    for (const Asset& asset : assets()) hash = hash_of(asset.bytes, hash);
    return "/" + as_hex(hash);
  }();
  return prefix;
}

std::string index_page(std::string_view page) {
  std::string text(page);
  std::string links;
  for (const Asset& asset : assets()) {
    const std::string path = kept_prefix() + std::string(asset.path);
    if (const size_t at = text.find(attribute(asset.path)); at != std::string::npos) {
      text.replace(at, asset.path.size() + 2, attribute(path));
    } else if (asset.path.ends_with(".js") && asset.path != "/worker.js") {
      links += "<link rel=\"modulepreload\" href=" + attribute(path) + ">\n";
    }
  }
  return text.insert(text.find("</head>"), links);
}

}  // namespace lockstep::studio
