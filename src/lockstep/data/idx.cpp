// IDX, the format of MNIST: big-endian magic (0, 0, type 8 = u8, dimensions), one 32-bit length a dimension, then the bytes.
// http://yann.lecun.com/exdb/mnist describes it.
#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/bytes.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kPicturesPart = "images-idx3-ubyte";
constexpr std::string_view kLabelsPart = "labels-idx1-ubyte";
constexpr uint32_t kPicturesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;

Error corrupt(const std::filesystem::path& path, const std::string& why) {
  return {ErrorCode::corrupt_data, "cannot read \"" + path.string() + "\": " + why, "get the file again"};
}

template <size_t count>
std::array<int64_t, count> read_header(ByteFile& file, const std::filesystem::path& path, uint32_t magic, const char* what) {
  std::array<uint8_t, 4 * (count + 1)> bytes{};
  const size_t have = file.read(bytes.data(), bytes.size());
  if (have < bytes.size()) throw corrupt(path, std::string(what) + " end at byte " + std::to_string(have) + ", inside their header");
  const auto number = [&](size_t i) {
    return uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 | uint32_t{bytes[4 * i + 2]} << 8 | bytes[4 * i + 3];
  };
  if (number(0) != magic) throw corrupt(path, "it does not hold " + std::string(what));
  std::array<int64_t, count> lengths{};
  for (size_t i = 0; i < count; ++i) lengths[i] = number(i + 1);
  return lengths;
}

std::vector<uint8_t> read_body(ByteFile& file, const std::filesystem::path& path, int64_t bytes, int64_t header_bytes) {
  const std::string promise = "its header promises " + with_commas(bytes) + " bytes";
  if (bytes > file.most_bytes()) throw corrupt(path, promise + ", more than the file can hold");
  check_fits_memory(path, bytes);
  std::vector<uint8_t> body(static_cast<size_t>(bytes));
  const size_t have = file.read(body.data(), body.size());
  if (have < body.size())
    throw corrupt(path, promise + " after itself, but it ends at byte " + std::to_string(have + static_cast<size_t>(header_bytes)));
  uint8_t more = 0;
  if (file.read(&more, 1) != 0) throw corrupt(path, promise + ", but more follow");
  return body;
}

Pictures read_pictures(const std::filesystem::path& path) {
  ByteFile file(path);
  const auto [count, height, width] = read_header<3>(file, path, kPicturesMagic, "IDX pictures");
  Pictures pictures;
  pictures.path = path.string();
  pictures.size = {1, height, width};
  try {
    check_size(pictures.size);
  } catch (const DecodeError& error) {
    throw corrupt(path, std::string("a picture ") + error.what());
  }
  if (count == 0) throw Error(ErrorCode::invalid_option, "\"" + path.string() + "\" holds no picture");
  pictures.pixels = read_body(file, path, count * height * width, 16);
  return pictures;
}

std::vector<uint8_t> read_labels(const std::filesystem::path& path, int64_t picture_count) {
  ByteFile file(path);
  const auto [count] = read_header<1>(file, path, kLabelsMagic, "IDX labels");
  if (count != picture_count) throw corrupt(path, "it has " + with_commas(count) + " labels for " + with_commas(picture_count) + " pictures");
  return read_body(file, path, count, 8);
}

bool has_pictures_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kPicturesPart) || name.ends_with(std::string(kPicturesPart) + ".gz");
}

// The labels' file beside a pictures' file, packed or not.
std::filesystem::path labels_path(const std::filesystem::path& pictures) {
  std::string name = pictures.filename().string();
  name.replace(name.rfind(kPicturesPart), kPicturesPart.size(), kLabelsPart);
  const std::filesystem::path as_pictures = pictures.parent_path() / name;
  const std::string other_name = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name + ".gz";
  const std::filesystem::path other = pictures.parent_path() / other_name;
  return !std::filesystem::exists(as_pictures) && std::filesystem::exists(other) ? other : as_pictures;
}

// The train pair before any other, in order of name.
std::filesystem::path pictures_path(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return has_pictures_name(path) ? path : std::filesystem::path();
  std::vector<std::filesystem::path> found;
  for (const auto& item : std::filesystem::directory_iterator(path)) {
    if (has_pictures_name(item.path())) found.push_back(item.path());
  }
  const auto rank = [](const std::filesystem::path& file) {
    return std::pair(!file.filename().string().starts_with("train"), file.filename().string());
  };
  const auto first = std::min_element(found.begin(), found.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return first == found.end() ? std::filesystem::path() : *first;
}

}  // namespace

bool fits_idx(const std::filesystem::path& path) { return !pictures_path(path).empty(); }

Source open_idx(const std::filesystem::path& path, const SourceOptions& options) {
  const std::filesystem::path file = pictures_path(path);
  Pictures pictures = read_pictures(file);
  const std::filesystem::path labels_file = labels_path(file);
  const int64_t count = static_cast<int64_t>(pictures.pixels.size()) / pictures.size.bytes();
  if (options.unlabelled && !std::filesystem::exists(labels_file)) {
    pictures.labels.assign(static_cast<size_t>(count), -1);
    pictures.classes = options.classes;
    return source_of(std::move(pictures), "IDX", options);
  }
  const std::vector<uint8_t> labels = read_labels(labels_file, count);
  const std::set<uint8_t> used(labels.begin(), labels.end());
  for (const uint8_t label : used) pictures.classes.push_back(std::to_string(label));
  for (const uint8_t label : labels) pictures.labels.push_back(std::distance(used.begin(), used.find(label)));
  return source_of(std::move(pictures), "IDX", options);
}

}  // namespace lockstep::data
