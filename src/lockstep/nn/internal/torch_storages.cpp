#include "lockstep/nn/internal/torch_storages.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <zip.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

// The pickle of PyTorch's magic number, 0x1950a86a20f9469cfc6c.
constexpr std::string_view kOldMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);

struct StorageType {
  std::string_view name;
  at::ScalarType type;
};
constexpr std::array<StorageType, 10> kTypes{{{"torch.DoubleStorage", at::kDouble},
                                              {"torch.FloatStorage", at::kFloat},
                                              {"torch.HalfStorage", at::kHalf},
                                              {"torch.BFloat16Storage", at::kBFloat16},
                                              {"torch.LongStorage", at::kLong},
                                              {"torch.IntStorage", at::kInt},
                                              {"torch.ShortStorage", at::kShort},
                                              {"torch.CharStorage", at::kChar},
                                              {"torch.ByteStorage", at::kByte},
                                              {"torch.BoolStorage", at::kBool}}};

/// The entries of a zip. Each is read whole into memory whose size is known in advance.
class Zip {
 public:
  explicit Zip(const std::filesystem::path& path)
      : path_(path), file_bytes_(std::filesystem::file_size(path)) {
    int code = 0;
    archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
    if (archive_ != nullptr) return;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    bad_torch_file(path, reason);
  }

  uint64_t file_bytes() const { return file_bytes_; }

  /// The folder that contains all entries, "archive/", found by the path of data.pkl.
  std::string folder() const {
    constexpr std::string_view kPickle = "data.pkl";
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      const char* raw = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
      const std::string_view name = raw == nullptr ? "" : raw;
      if (name.ends_with(kPickle) &&
          (name.size() == kPickle.size() || name[name.size() - kPickle.size() - 1] == '/'))
        return std::string(name.substr(0, name.size() - kPickle.size()));
    }
    bad_torch_file(path_, "it is a zip without data.pkl");
  }

  bool has(const std::string& name) const {
    return zip_name_locate(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW) >= 0;
  }

  /// The entry's size according to the zip, at most `most`.
  uint64_t size_of(const std::string& name, uint64_t most) const {
    zip_stat_t status;
    zip_stat_init(&status);
    if (zip_stat(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW, &status) != 0 ||
        (status.valid & ZIP_STAT_SIZE) == 0)
      bad_torch_file(path_, "its entry " + in_quotes(name) + " is missing");
    if (status.size > most)
      bad_torch_file(path_, "its entry " + in_quotes(name) + " has " + std::to_string(status.size) +
                                " bytes, more than the maximum of " + std::to_string(most));
    return status.size;
  }

  void read(const std::string& name, char* to, uint64_t bytes) const {
    const std::unique_ptr<zip_file_t, Closer> entry(zip_fopen(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW));
    if (entry == nullptr)
      bad_torch_file(path_,
                     "its entry " + in_quotes(name) + " cannot be read: " + zip_strerror(archive_.get()));
    uint64_t done = 0;
    char beyond = 0;
    while (true) {  // to the end, because the checksum is compared there
      const zip_int64_t got =
          zip_fread(entry.get(), done < bytes ? to + done : &beyond, done < bytes ? bytes - done : 1);
      if (got < 0)
        bad_torch_file(path_,
                       "its entry " + in_quotes(name) + " is damaged: " + zip_file_strerror(entry.get()));
      if (got == 0) break;
      done += static_cast<uint64_t>(got);
      if (done > bytes) break;
    }
    if (done != bytes)
      bad_torch_file(path_, "its entry " + in_quotes(name) + " does not have the length that the zip states");
  }

  std::string text(const std::string& name, uint64_t most) const {
    std::string text(size_of(name, most), '\0');
    read(name, text.data(), text.size());
    return text;
  }

 private:
  struct Closer {
    void operator()(zip_t* archive) const { zip_discard(archive); }
    void operator()(zip_file_t* entry) const { zip_fclose(entry); }
  };
  std::filesystem::path path_;
  uint64_t file_bytes_;
  std::unique_ptr<zip_t, Closer> archive_;
};

/// The format since PyTorch 1.6: a zip of the pickle and an entry for each storage.
class ZippedStorages : public StorageBytes {
 public:
  explicit ZippedStorages(const std::filesystem::path& path) : zip_(path), folder_(zip_.folder()) {
    const std::string order = folder_ + "byteorder";
    if (zip_.has(order) && zip_.text(order, 16) != "little")
      bad_torch_file(path, "its numbers are big-endian");
  }

  std::string pickle() const { return zip_.text(folder_ + "data.pkl", kMostPickleBytes); }
  uint64_t size_of(const std::string& key, uint64_t most) const override {
    return zip_.size_of(folder_ + "data/" + key, most);
  }
  void read(const std::string& key, char* to, uint64_t bytes) const override {
    zip_.read(folder_ + "data/" + key, to, bytes);
  }
  uint64_t file_bytes() const override { return zip_.file_bytes(); }

 private:
  Zip zip_;
  std::string folder_;
};

/// The format before PyTorch 1.6: the pickles of a magic number, a version, the machine's sizes, the state
/// dict and the keys of its storages; then, in the order of the keys, each storage's number of elements (64
/// bits) and its elements. Source: torch/serialization.py, _legacy_save.
class OldStorages : public StorageBytes {
 public:
  explicit OldStorages(const std::filesystem::path& path)
      : path_(path), file_(path, O_RDONLY), file_bytes_(std::filesystem::file_size(path)) {
    std::string head(std::min<uint64_t>(file_bytes_, 2 * kMostPickleBytes), '\0');
    head.resize(file_.read_at(0, head));
    std::string_view rest = head;
    rest.remove_prefix(std::min(rest.size(), kOldMagic.size()));
    take_pickle(rest);  // the version of the format, always 1001
    const Pickle machine = take_pickle(rest);
    check_byte_order(machine);
    pickle_ = take_pickle(rest);
    keys_ = take_pickle(rest);
    first_ = head.size() - rest.size();
    if (keys_.at(keys_.top).kind != PickleValue::Kind::list)
      bad_torch_file(path_, "it does not list its storages");
  }

  Pickle take_state() { return std::move(pickle_); }

  /// The places of all storages, whose element sizes only the state dict knows.
  void find(const Pickle& state) {
    std::map<std::string, uint64_t> element_bytes;
    for (const PickleValue& value : state.values) {
      if (value.kind != PickleValue::Kind::storage) continue;
      element_bytes[state.at(value.items[1]).text] =
          c10::elementSize(storage_type(state.at(value.items[0]).text));
    }
    uint64_t at = first_;
    for (const uint32_t item : keys_.at(keys_.top).items) {
      const std::string& key = keys_.at(item).text;
      const auto found = element_bytes.find(key);
      if (found == element_bytes.end())
        bad_torch_file(path_, "its storage " + in_quotes(key) + " has no type");
      const uint64_t bytes = count_at(at, key) * found->second;
      at += sizeof(uint64_t);
      if (bytes > file_bytes_ - std::min(at, file_bytes_))
        bad_torch_file(path_, "it ends inside its storage " + in_quotes(key));
      places_[key] = {at, bytes};
      at += bytes;
    }
  }

  uint64_t size_of(const std::string& key, uint64_t most) const override {
    const Place& place = place_of(key);
    if (place.bytes > most) bad_torch_file(path_, "its storage " + in_quotes(key) + " is too large");
    return place.bytes;
  }
  void read(const std::string& key, char* to, uint64_t bytes) const override {
    const Place& place = place_of(key);
    if (file_.read_at(static_cast<int64_t>(place.offset), {to, bytes}) != bytes)
      bad_torch_file(path_, "it ends inside its storage " + in_quotes(key));
  }
  uint64_t file_bytes() const override { return file_bytes_; }

 private:
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void check_byte_order(const Pickle& machine) const {
    const PickleValue& sizes = machine.at(machine.top);
    for (size_t i = 0; i + 1 < sizes.items.size(); i += 2) {
      if (machine.at(sizes.items[i]).text == "little_endian" && machine.at(sizes.items[i + 1]).integer == 0)
        bad_torch_file(path_, "its numbers are big-endian");
    }
  }

  // The number of elements, so few that they can be in the file.
  uint64_t count_at(uint64_t offset, const std::string& key) const {
    uint64_t count = 0;
    const std::span<char> bytes(reinterpret_cast<char*>(&count), sizeof(count));
    if (file_.read_at(static_cast<int64_t>(offset), bytes) != sizeof(count) || count > file_bytes_)
      bad_torch_file(path_, "it ends inside its storage " + in_quotes(key));
    return count;
  }

  const Place& place_of(const std::string& key) const {
    const auto found = places_.find(key);
    if (found == places_.end()) bad_torch_file(path_, "its storage " + in_quotes(key) + " is missing");
    return found->second;
  }

  std::filesystem::path path_;
  OpenFile file_;
  uint64_t file_bytes_;
  Pickle pickle_, keys_;
  uint64_t first_ = 0;
  std::map<std::string, Place> places_;
};

}  // namespace

void bad_torch_file(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" is not a valid PyTorch file: " + reason,
              "save only the weights with torch.save(model.state_dict(), FILE), or use safetensors");
}

c10::ScalarType storage_type(std::string_view name) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const StorageType& type) { return type.name == name; });
  return found == kTypes.end() ? c10::ScalarType::Undefined : found->type;
}

OpenedTorchFile open_torch_file(const std::filesystem::path& path) {
  std::array<char, kOldMagic.size()> head{};
  const size_t got = OpenFile(path, O_RDONLY).read_at(0, head);
  if (std::string_view(head.data(), got) == kOldMagic) {
    auto storages = std::make_unique<OldStorages>(path);
    Pickle state = storages->take_state();
    storages->find(state);
    return {std::move(state), std::move(storages)};
  }
  auto storages = std::make_unique<ZippedStorages>(path);
  return {read_pickle(storages->pickle()), std::move(storages)};
}

}  // namespace lockstep::nn
