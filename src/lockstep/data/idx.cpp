// IDX, the format of MNIST: a big-endian magic number (0, 0, type 8 = u8, dimensions), one 32-bit length per
// dimension, then the bytes. http://yann.lecun.com/exdb/mnist describes it.
#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/bytes.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

struct Spelling {
  std::string_view images, labels;
};
// As in Yann LeCun's archives, and as some programs unpack these.
constexpr std::array<Spelling, 2> kSpellings{
    {{"images-idx3-ubyte", "labels-idx1-ubyte"}, {"images.idx3-ubyte", "labels.idx1-ubyte"}}};
constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;

template <size_t count>
std::array<int64_t, count> read_header(ByteFile& file, uint32_t magic, const char* what) {
  std::array<uint8_t, 4 * (count + 1)> bytes{};
  const size_t have = file.read(bytes.data(), bytes.size());
  if (have < bytes.size())
    throw damaged_file(file.name(),
                       std::string(what) + " end at byte " + std::to_string(have) + ", inside their header");
  const auto number = [&](size_t i) {
    return uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 | uint32_t{bytes[4 * i + 2]} << 8 |
           bytes[4 * i + 3];
  };
  if (number(0) != magic) throw damaged_file(file.name(), "it does not contain " + std::string(what));
  std::array<int64_t, count> lengths{};
  for (size_t i = 0; i < count; ++i) lengths[i] = number(i + 1);
  return lengths;
}

std::vector<uint8_t> read_body(ByteFile& file, int64_t bytes, int64_t header_bytes) {
  const std::string promise = "its header promises " + with_commas(bytes) + " bytes";
  if (bytes > file.most_bytes())
    throw damaged_file(file.name(), promise + ", more than the file can contain");
  check_fits_memory(file.name(), bytes);
  std::vector<uint8_t> body(static_cast<size_t>(bytes));
  const size_t have = file.read(body.data(), body.size());
  if (have < body.size())
    throw damaged_file(file.name(), promise + " after itself, but it ends at byte " +
                                        std::to_string(have + static_cast<size_t>(header_bytes)));
  uint8_t more = 0;
  if (file.read(&more, 1) != 0) throw damaged_file(file.name(), promise + ", but there are more");
  return body;
}

Images read_images(const Files& files, const std::string& path) {
  ByteFile file(files, path);
  const auto [count, height, width] = read_header<3>(file, kImagesMagic, "IDX images");
  Images images;
  images.path = file.name();
  images.size = {1, height, width};
  try {
    check_size(images.size);
  } catch (const DecodeError& error) {
    throw damaged_file(file.name(), std::string("its images cannot be decoded: ") + error.what());
  }
  if (count == 0) throw Error(ErrorCode::invalid_option, "\"" + file.name() + "\" contains no images");
  images.pixels = read_body(file, count * height * width, 16);
  return images;
}

std::vector<uint8_t> read_labels(const Files& files, const std::string& path, int64_t image_count) {
  ByteFile file(files, path);
  const auto [count] = read_header<1>(file, kLabelsMagic, "IDX labels");
  if (count != image_count)
    throw damaged_file(file.name(), "it has " + counted(count, "label") +
                                        (image_count == 1 ? ", but there is " : ", but there are ") +
                                        counted(image_count, "image"));
  return read_body(file, count, 8);
}

std::string_view without_gz(std::string_view name) {
  return name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
}

const Spelling* spelling_of(std::string_view name) {
  const auto* const found = std::find_if(kSpellings.begin(), kSpellings.end(), [&](const Spelling& spelling) {
    return without_gz(name).ends_with(spelling.images);
  });
  return found == kSpellings.end() ? nullptr : found;
}

// The label file that belongs to an image file, compressed or not.
std::string labels_name(const Files& files, std::string name) {
  const Spelling& spelling = *spelling_of(name);
  name.replace(name.rfind(spelling.images), spelling.images.size(), spelling.labels);
  const std::string other = name.ends_with(".gz") ? std::string(without_gz(name)) : name + ".gz";
  return !files.has(name) && files.has(other) ? other : name;
}

// EMNIST's names have the part in their middle: emnist-letters-train-images-idx3-ubyte.
bool is_training_name(std::string_view name) {
  return lower(name.substr(0, name.rfind("images"))).find("train") != std::string::npos;
}

// The wanted images first, then the others in the order of their names. A file is not listed again compressed
// or in its folder.
std::vector<std::string> image_names(const Files& files, const SourceOptions& options) {
  std::vector<std::string> found = files.at_root(is_idx_name);
  const std::vector<std::string> all = found;
  std::erase_if(found, [&](const std::string& name) {
    const bool again = name.ends_with(".gz") && std::count(all.begin(), all.end(), without_gz(name)) > 0;
    return again || files.has_folder(name);
  });
  if (found.empty()) found = all;
  std::stable_partition(found.begin(), found.end(),
                        [&](const std::string& name) { return is_training_name(name) != options.test_part; });
  return found;
}

// Beside training images there may be test images, which are a dataset of their own.
std::string kind_of(const Files& files, const std::vector<std::string>& names, const SourceOptions& options) {
  const std::string kind = files.described("IDX");
  if (names.size() < 2) return kind;
  return kind + ", " + names[0] + "; the others are not used" +
         (options.test_part ? "" : ": --test " + files.shown(names[1]));
}

Source named(Source source, const Files& files, const std::vector<std::string>& names) {
  if (names.size() > 1) source.file = files.shown(names.front());
  return source;
}

}  // namespace

bool is_idx_name(std::string_view name) { return spelling_of(name) != nullptr; }

bool fits_idx(const Files& files) { return !files.at_root(is_idx_name).empty(); }

Source open_idx(Files files, const SourceOptions& options) {
  const std::vector<std::string> names = image_names(files, options);
  const std::string& name = names.front();
  Images images = read_images(files, name);
  const std::string labels_file = labels_name(files, name);
  const int64_t count = static_cast<int64_t>(images.pixels.size()) / images.size.bytes();
  if (options.unlabelled && !files.has(labels_file)) {
    images.labels.assign(static_cast<size_t>(count), -1);
    images.classes = options.classes;
    return named(source_of(std::move(images), kind_of(files, names, options), options), files, names);
  }
  const std::vector<uint8_t> labels = read_labels(files, labels_file, count);
  const std::set<uint8_t> used(labels.begin(), labels.end());
  for (const uint8_t label : used) images.classes.push_back(std::to_string(label));
  for (const uint8_t label : labels) images.labels.push_back(std::distance(used.begin(), used.find(label)));
  return named(source_of(std::move(images), kind_of(files, names, options), options), files, names);
}

}  // namespace lockstep::data
