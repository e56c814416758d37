#include "lockstep/nn/torch_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <ATen/ops/empty.h>

#include "lockstep/nn/internal/bad_bools.h"
#include "lockstep/nn/internal/pickle.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/internal/torch_storages.h"
#include "lockstep/nn/internal/unsupported_numbers.h"

namespace lockstep::nn {
namespace {

constexpr uint64_t kMostExpansion =
    32;  // maximum bytes of tensors per byte of the file: weights do not compress better
constexpr size_t kMostTorchDimensions = 64;
constexpr int64_t kMostRepeatedBytes =
    int64_t{256} << 20;  // for all tensors of a file that have more numbers than their storage

class TorchFile {
 public:
  TorchFile(const std::filesystem::path& path, OpenedTorchFile opened)
      : path_(path), pickle_(std::move(opened.state)), bytes_(std::move(opened.storages)) {}

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
    const uint64_t bytes = bytes_->size_of(key, bytes_->file_bytes() * kMostExpansion - read_bytes_);
    if (value.integer < 0 || bytes % c10::elementSize(type) != 0 ||
        bytes / c10::elementSize(type) != static_cast<uint64_t>(value.integer)) {
      bad_torch_file(path_, "its storage " + in_quotes(key) + " has " + std::to_string(bytes) +
                                " bytes, which do not fit " + std::to_string(value.integer) + " numbers");
    }
    read_bytes_ += bytes;
    at::Tensor whole = at::empty({value.integer}, type);
    bytes_->read(key, static_cast<char*>(whole.data_ptr()), bytes);
    if (has_bad_bools(whole))
      bad_torch_file(path_,
                     "its storage " + in_quotes(key) + " contains bytes that are neither true nor false");
    return storages_.emplace(key, std::move(whole)).first->second;
  }

  at::ScalarType type_of(const PickleValue& storage) const {
    return storage_type(pickle_.at(storage.items[0]).text);
  }

  std::filesystem::path path_;
  Pickle pickle_;
  std::unique_ptr<StorageBytes> bytes_;
  std::map<std::string, at::Tensor> storages_;
  uint64_t read_bytes_ = 0;
  int64_t repeated_bytes_ = 0;
};

}  // namespace

SafetensorsFile read_torch_file(const std::filesystem::path& path) {
  try {
    return TorchFile(path, open_torch_file(path)).read();
  } catch (const PickleError& error) {
    if (error.is_of_numbers) unsupported_numbers(path, error.message);
    bad_torch_file(path, error.message);
  }
}

}  // namespace lockstep::nn
