#include "lockstep/nn/torch_file.h"

#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <ATen/ops/empty.h>
#include <zip.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/nn/internal/pickle.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

constexpr uint64_t kMostExpansion =
    32;  // maximum bytes of tensors per byte of the file: weights do not compress better
constexpr size_t kMostTorchDimensions = 64;
constexpr int64_t kMostRepeatedBytes =
    int64_t{256} << 20;  // for all tensors of a file that have more numbers than their storage

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

[[noreturn]] void bad_torch_file(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" is not a valid PyTorch file: " + reason,
              "save only the weights with torch.save(model.state_dict(), FILE), or use safetensors");
}

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

class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path) : path_(path), zip_(path), folder_(zip_.folder()) {
    const std::string order = folder_ + "byteorder";
    if (zip_.has(order) && zip_.text(order, 16) != "little")
      bad_torch_file(path_, "its numbers are big-endian");
    try {
      pickle_ = read_pickle(zip_.text(folder_ + "data.pkl", kMostPickleBytes));
    } catch (const PickleError& error) {
      bad_torch_file(path_, error.message);
    }
  }

  SafetensorsFile read() {
    SafetensorsFile file;
    std::unordered_set<std::string_view> names;
    const PickleValue& state = state_dict();
    for (size_t i = 0; i < state.items.size(); i += 2) {
      const PickleValue& key = pickle_.at(state.items[i]);
      const PickleValue& value = pickle_.at(state.items[i + 1]);
      if (key.kind != PickleValue::Kind::text) bad_torch_file(path_, "a key of its state dict is not a text");
      if (key.text.size() > kMostKeyBytes)
        bad_torch_file(path_, "its entry " + in_quotes(key.text) + " has a name of " +
                                  std::to_string(key.text.size()) + " bytes");
      if (!names.insert(key.text).second)
        bad_torch_file(path_, "its entry " + in_quotes(key.text) + " occurs twice");
      if (value.kind != PickleValue::Kind::tensor)
        bad_torch_file(path_, "its entry " + in_quotes(key.text) + " is not a tensor");
      file.tensors.emplace_back(key.text, tensor(key.text, value));
    }
    return file;
  }

 private:
  const PickleValue& state_dict() const {
    const PickleValue& top = pickle_.at(pickle_.top);
    if (top.kind != PickleValue::Kind::dict) bad_torch_file(path_, "it does not contain a state dict");
    for (const std::string_view name : {"state_dict", "model_state_dict", "model"}) {
      for (size_t i = 0; i < top.items.size(); i += 2) {
        const PickleValue& inner = pickle_.at(top.items[i + 1]);
        if (inner.kind == PickleValue::Kind::dict && pickle_.at(top.items[i]).text == name) return inner;
      }
    }
    return top;
  }

  std::vector<int64_t> numbers(uint32_t tuple, const std::string& name) const {
    std::vector<int64_t> values;
    for (const uint32_t item : pickle_.at(tuple).items) {
      const PickleValue& value = pickle_.at(item);
      if (value.kind != PickleValue::Kind::integer || value.integer < 0 ||
          values.size() == kMostTorchDimensions)
        bad_torch_file(path_, "tensor " + in_quotes(name) + " has a bad shape");
      values.push_back(value.integer);
    }
    return values;
  }

  at::Tensor tensor(const std::string& name, const PickleValue& value) {
    const at::Tensor& whole = storage(pickle_.at(value.items[0]));
    const int64_t offset = pickle_.at(value.items[1]).integer;
    const std::vector<int64_t> sizes = numbers(value.items[2], name), strides = numbers(value.items[3], name);
    if (sizes.size() != strides.size() || offset < 0)
      bad_torch_file(path_, "tensor " + in_quotes(name) + " has a bad shape");
    int64_t count = 1, last = offset;
    bool too_large = false, empty = false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      empty |= sizes[i] == 0;
      int64_t reach = 0;
      too_large |= __builtin_mul_overflow(count, std::max<int64_t>(1, sizes[i]), &count);
      too_large |= __builtin_mul_overflow(std::max<int64_t>(1, sizes[i]) - 1, strides[i], &reach) ||
                   __builtin_add_overflow(last, reach, &last);
    }
    if (too_large || (empty ? offset > whole.numel() : last >= whole.numel()))
      bad_torch_file(path_, "tensor " + in_quotes(name) + " extends beyond the end of its storage");
    const at::Tensor view = whole.as_strided(sizes, strides, offset);
    return empty || count <= whole.numel() ? view : repeated(name, view);
  }

  // Tensors made by expand() have strides of 0, so a few bytes could become any amount.
  at::Tensor repeated(const std::string& name, const at::Tensor& view) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(view.numel(), static_cast<int64_t>(view.element_size()), &bytes) ||
        bytes > kMostRepeatedBytes - repeated_bytes_) {
      bad_torch_file(path_, "tensor " + in_quotes(name) +
                                " repeats the numbers of its storage, like expand(), and would have " +
                                std::to_string(view.numel()) + " of them, more than the maximum of " +
                                std::to_string(kMostRepeatedBytes >> 20) + " MB for all such tensors");
    }
    repeated_bytes_ += bytes;
    return view.contiguous();
  }

  // Read once for all its tensors.
  const at::Tensor& storage(const PickleValue& value) {
    const std::string& key = pickle_.at(value.items[1]).text;
    if (const auto found = storages_.find(key); found != storages_.end()) {
      if (found->second.scalar_type() != type_of(value))
        bad_torch_file(path_, "its storage " + in_quotes(key) + " has two types");
      return found->second;
    }
    const at::ScalarType type = type_of(value);
    const std::string name = folder_ + "data/" + key;
    const uint64_t bytes = zip_.size_of(name, zip_.file_bytes() * kMostExpansion - read_bytes_);
    if (value.integer < 0 || bytes % c10::elementSize(type) != 0 ||
        bytes / c10::elementSize(type) != static_cast<uint64_t>(value.integer)) {
      bad_torch_file(path_, "its entry " + in_quotes(name) + " has " + std::to_string(bytes) +
                                " bytes, which do not fit " + std::to_string(value.integer) + " numbers");
    }
    read_bytes_ += bytes;
    at::Tensor whole = at::empty({value.integer}, type);
    zip_.read(name, static_cast<char*>(whole.data_ptr()), bytes);
    return storages_.emplace(key, std::move(whole)).first->second;
  }

  at::ScalarType type_of(const PickleValue& storage) const {
    for (const StorageType& type : kTypes) {
      if (type.name == pickle_.at(storage.items[0]).text) return type.type;
    }
    return at::ScalarType::Undefined;  // read_pickle accepts no other type
  }

  std::filesystem::path path_;
  Zip zip_;
  std::string folder_;
  Pickle pickle_;
  std::map<std::string, at::Tensor> storages_;
  uint64_t read_bytes_ = 0;
  int64_t repeated_bytes_ = 0;
};

}  // namespace

SafetensorsFile read_torch_file(const std::filesystem::path& path) { return TorchFile(path).read(); }

}  // namespace lockstep::nn
