#include "lockstep/data/internal/images_by_name.h"

#include <filesystem>

#include "lockstep/data/decode.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

std::string_view without_ending(std::string_view path) { return path.substr(0, path.rfind('.')); }

std::string whole_path(const std::string& folder) {
  if (io::is_address(folder)) return folder + "/";
  return (std::filesystem::absolute(folder) / "").lexically_normal().string();
}

}  // namespace

ImagesByName::ImagesByName(const Files& files, Endings endings)
    : is_at_address_(io::is_address(files.root())), folder_(whole_path(files.root())) {
  const auto add = [](auto& places, std::string_view key, const Files::Name& name) {
    const auto [at, is_new] = places.emplace(key, &name);
    if (!is_new) at->second = nullptr;
  };
  for (const Files::Name& name : files.names()) {
    std::string_view path = files.path(name);
    if (name.kind != io::Listed::Kind::file || !is_image_name(path)) continue;
    if (endings == Endings::left_out) path = without_ending(path);
    add(by_path_, path, name);
    add(by_file_name_, path.substr(path.rfind('/') + 1), name);
  }
}

// From the folder; empty: it is not below it.
std::string ImagesByName::relative(std::string_view image) const {
  const std::string path = is_at_address_
                               ? std::string(image)
                               : (std::filesystem::path(folder_) / image).lexically_normal().string();
  return path.starts_with(folder_) ? path.substr(folder_.size()) : "";
}

// Null: there are several of this name.
std::optional<const Files::Name*> ImagesByName::look_for(std::string_view image) const {
  if (const auto at = by_path_.find(image); at != by_path_.end()) return at->second;
  if (const auto at = by_path_.find(relative(image)); at != by_path_.end()) return at->second;
  if (const auto at = by_file_name_.find(image); at != by_file_name_.end()) return at->second;
  return std::nullopt;
}

}  // namespace lockstep::data
