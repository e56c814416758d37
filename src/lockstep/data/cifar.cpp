// CIFAR binaries: records of one label byte (CIFAR-100: coarse, then fine) and 3x32x32 bytes, red, green,
// blue. https://www.cs.toronto.edu/~kriz/cifar.html describes them.
#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
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
  std::vector<std::string> files;
  bool has_both_parts = false;
};

bool has_name(const Variant& variant, std::string_view name) {
  return name == variant.test_name || (name.starts_with(variant.train_prefix) && name.ends_with(".bin"));
}

// The wanted part of a folder, or the one that it has; or one file, recognised by its name or by a length
// that only one variant has.
Found find_files(const Files& files, bool test_part) {
  for (const Variant& variant : kVariants) {
    Found found{&variant, files.at_root([&](std::string_view name) { return has_name(variant, name); })};
    if (found.files.empty()) continue;
    const auto is_other = [&](const std::string& name) { return (name == variant.test_name) != test_part; };
    const auto others = std::count_if(found.files.begin(), found.files.end(), is_other);
    found.has_both_parts = others > 0 && others < std::ssize(found.files);
    if (found.has_both_parts) std::erase_if(found.files, is_other);
    return found;
  }
  if (!files.one_file()) return {};
  std::vector<std::string> other = files.at_root(is_cifar_name);
  if (other.empty()) return {};
  const int64_t bytes = files.bytes_of(other.front());
  for (const Variant& variant : kVariants) {
    if (bytes > 0 && bytes % variant.record_bytes() == 0) return {&variant, std::move(other), false};
  }
  return {};
}

std::vector<std::string> class_names(const Variant& variant, const Files& files) {
  std::vector<std::string> names;
  if (files.has(variant.names_file)) {
    for (std::string& line : split(files.read(variant.names_file, 1 << 16), '\n')) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) names.push_back(std::move(line));
    }
    const std::string path = files.shown(variant.names_file);
    if (static_cast<int64_t>(names.size()) != variant.class_count)
      throw damaged_file(path, "it has " + std::to_string(names.size()) + " names, but the dataset has " +
                                   std::to_string(variant.class_count) + " classes");
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      throw damaged_file(path, "it has the name \"" + *twice + "\" for two classes");
    return names;
  }
  for (int64_t i = 0; i < variant.class_count; ++i) names.push_back(std::to_string(i));
  return names;
}

void add_file(const Variant& variant, const Files& files, const std::string& name, Images& images) {
  const std::string path = files.shown(name);
  const int64_t most = files.bytes_of(name);
  // Reads the whole file, then copies it without its labels.
  check_fits_memory(path, 2 * most + static_cast<int64_t>(images.pixels.size()));
  const std::string bytes = files.read(name, most);
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t records = size / variant.record_bytes();
  if (records == 0 || size % variant.record_bytes() != 0) {
    throw damaged_file(path, "it ends at byte " + std::to_string(size) + ", inside record " +
                                 std::to_string(records + 1) + " of " +
                                 std::to_string(variant.record_bytes()) + " bytes");
  }
  images.files.emplace_back(static_cast<int64_t>(images.labels.size()), path);
  for (int64_t i = 0; i < records; ++i) {
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + i * variant.record_bytes();
    const int64_t label = record[variant.label_bytes - 1];
    if (label >= variant.class_count) {
      throw damaged_file(path, "record " + std::to_string(i + 1) + " has label " + std::to_string(label) +
                                   ", but a " + variant.kind + " has " + std::to_string(variant.class_count) +
                                   " classes");
    }
    images.labels.push_back(label);
    images.pixels.insert(images.pixels.end(), record + variant.label_bytes, record + variant.record_bytes());
  }
}

}  // namespace

bool is_cifar_name(std::string_view name) { return name.ends_with(".bin"); }

bool is_published_cifar_name(std::string_view name) {
  return has_name(kVariants[0], name) || name == "train.bin" || name == "test.bin";
}

bool fits_cifar(const Files& files) { return !find_files(files, /*test_part=*/false).files.empty(); }

Source open_cifar(Files files, const SourceOptions& options) {
  const auto [variant, names, has_both_parts] = find_files(files, options.test_part);
  const std::string test_file = files.shown(variant->test_name);
  const bool is_test = has_both_parts && options.test_part;
  Images images;
  images.path = is_test ? test_file : files.root();
  images.size = kSize;
  images.classes = class_names(*variant, files);
  for (const std::string& name : names) add_file(*variant, files, name, images);
  std::string kind = files.described(variant->kind);
  if (has_both_parts)
    kind += is_test ? std::string(", ") + variant->test_name + "; the others are not used"
                    : std::string(", ") + variant->test_name + " is not used: --test " + test_file;
  Source source = source_of(std::move(images), std::move(kind), options);
  if (is_test) source.file = test_file;
  return source;
}

}  // namespace lockstep::data
