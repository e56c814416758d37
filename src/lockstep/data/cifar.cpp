// CIFAR binaries: records of one label byte (CIFAR-100: coarse, then fine) and 3x32x32 bytes, red, green, blue.
// https://www.cs.toronto.edu/~kriz/cifar.html describes them.
#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr ImageSize kSize{3, 32, 32};

struct Variant {
  const char* kind;
  int64_t label_bytes;  ///< the last one is the label
  int64_t class_count;
  const char* names_file;
  const char* train_prefix;
  const char* test_name;
  int64_t record_bytes() const { return label_bytes + kSize.bytes(); }
};

constexpr std::array<Variant, 2> kVariants{{
    {"CIFAR-10 binary", 1, 10, "batches.meta.txt", "data_batch_", "test_batch.bin"},
    {"CIFAR-100 binary", 2, 100, "fine_label_names.txt", "train", "test.bin"},
}};

struct Found {
  const Variant* variant = nullptr;
  std::vector<std::filesystem::path> files;
};

bool has_name(const Variant& variant, const std::string& name) {
  return name == variant.test_name || (name.starts_with(variant.train_prefix) && name.ends_with(".bin"));
}

// A folder's training files, else its test file; or one file, by name or by a length that only one variant has.
Found find_files(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    for (const Variant& variant : kVariants) {
      Found found{&variant, {}};
      for (const auto& item : std::filesystem::directory_iterator(path)) {
        const std::string name = item.path().filename().string();
        if (has_name(variant, name) && name != variant.test_name) found.files.push_back(item.path());
      }
      std::sort(found.files.begin(), found.files.end());
      if (found.files.empty() && std::filesystem::exists(path / variant.test_name)) found.files.push_back(path / variant.test_name);
      if (!found.files.empty()) return found;
    }
    return {};
  }
  if (path.extension() != ".bin") return {};
  for (const Variant& variant : kVariants) {
    if (has_name(variant, path.filename().string())) return {&variant, {path}};
  }
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  for (const Variant& variant : kVariants) {
    if (bytes > 0 && bytes % variant.record_bytes() == 0) return {&variant, {path}};
  }
  return {};
}

std::vector<std::string> class_names(const Variant& variant, const std::filesystem::path& folder) {
  std::vector<std::string> names;
  const std::filesystem::path file = folder / variant.names_file;
  if (std::filesystem::exists(file)) {
    for (std::string& line : split(read_file(file, 1 << 16), '\n')) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) names.push_back(std::move(line));
    }
    if (static_cast<int64_t>(names.size()) == variant.class_count) return names;
    throw Error(ErrorCode::corrupt_data, "\"" + file.string() + "\" has " + std::to_string(names.size()) + " names for " +
                                             std::to_string(variant.class_count) + " classes");
  }
  for (int64_t i = 0; i < variant.class_count; ++i) names.push_back(std::to_string(i));
  return names;
}

void add_file(const Variant& variant, const std::filesystem::path& path, Pictures& pictures) {
  // What is read, and the copy without its labels.
  check_fits_memory(path, 2 * static_cast<int64_t>(std::filesystem::file_size(path)) + static_cast<int64_t>(pictures.pixels.size()));
  const std::string bytes = read_file(path);
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t records = size / variant.record_bytes();
  if (records == 0 || size % variant.record_bytes() != 0) {
    throw Error(ErrorCode::corrupt_data,
                "cannot read \"" + path.string() + "\": it ends at byte " + std::to_string(size) + ", inside record " +
                    std::to_string(records + 1) + " of " + std::to_string(variant.record_bytes()) + " bytes",
                "get the file again");
  }
  for (int64_t i = 0; i < records; ++i) {
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + i * variant.record_bytes();
    const int64_t label = record[variant.label_bytes - 1];
    if (label >= variant.class_count) {
      throw Error(ErrorCode::corrupt_data,
                  "cannot read \"" + path.string() + "\": record " + std::to_string(i + 1) + " has label " + std::to_string(label) +
                      ", but a " + variant.kind + " has " + std::to_string(variant.class_count) + " classes",
                  "get the file again");
    }
    pictures.labels.push_back(label);
    pictures.pixels.insert(pictures.pixels.end(), record + variant.label_bytes, record + variant.record_bytes());
  }
}

}  // namespace

bool fits_cifar(const std::filesystem::path& path) { return !find_files(path).files.empty(); }

Source open_cifar(const std::filesystem::path& path, const SourceOptions& options) {
  const auto [variant, files] = find_files(path);
  Pictures pictures;
  pictures.path = path.string();
  pictures.size = kSize;
  pictures.classes = class_names(*variant, files.front().parent_path());
  for (const std::filesystem::path& file : files) add_file(*variant, file, pictures);
  return source_of(std::move(pictures), variant->kind, options);
}

}  // namespace lockstep::data
