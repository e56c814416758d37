#include "lockstep/nn/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/ops/empty.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/internal/bad_bools.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/internal/safetensors_header.h"
#include "lockstep/nn/internal/unsupported_numbers.h"
#include "lockstep/nn/tensor_bytes.h"

namespace lockstep::nn {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and is copied without conversion");

constexpr size_t kLengthBytes = 8;
constexpr size_t kDataAlignment = 8;

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<Dtype, 10> kDtypes{{{"F64", at::kDouble},
                                         {"F32", at::kFloat},
                                         {"F16", at::kHalf},
                                         {"BF16", at::kBFloat16},
                                         {"I64", at::kLong},
                                         {"I32", at::kInt},
                                         {"I16", at::kShort},
                                         {"I8", at::kChar},
                                         {"U8", at::kByte},
                                         {"BOOL", at::kBool}}};

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" is not a valid safetensors file: " + reason,
              "the file may be incomplete or have another format; create or download it again");
}

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path) : file_(path, O_RDONLY) {
    struct stat status {};
    const int failed = ::fstat(file_.get(), &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
    if (failed != 0) throw errno_error(failed, "read", path.string());
    size_ = static_cast<uint64_t>(status.st_size);
  }

  uint64_t size() const { return size_; }

  void read(uint64_t offset, void* to, uint64_t bytes) const {
    if (file_.read_at(static_cast<int64_t>(offset), {static_cast<char*>(to), bytes}) < bytes)
      corrupt(file_.path(), "it became shorter while it was read");
  }

 private:
  OpenFile file_;
  uint64_t size_ = 0;
};

// Of protocol 2 to 5, which begin with the bytes 0x80 and the protocol.
bool begins_as_pickle(uint64_t first_bytes) {
  const uint64_t protocol = first_bytes >> 8 & 0xFF;
  return (first_bytes & 0xFF) == 0x80 && protocol >= 2 && protocol <= 5;
}

std::string read_header_text(const InputFile& file, const std::filesystem::path& path) {
  if (file.size() < kLengthBytes)
    corrupt(path,
            "it has " + std::to_string(file.size()) + " bytes, fewer than the 8 of the header's length");
  uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  const bool too_long = length > kMostHeaderBytes || length > file.size() - kLengthBytes;
  if (too_long && begins_as_pickle(length))
    throw Error(ErrorCode::corrupt_data,
                quote(path.string()) + " is a pickle of Python, not a safetensors file",
                "save the weights with torch.save(model.state_dict(), FILE), or use safetensors");
  if (too_long) {
    corrupt(path, "its header would have " + std::to_string(length) + " bytes, but the file has " +
                      std::to_string(file.size()));
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, text.data(), length);
  return text;
}

at::ScalarType type_of(const HeaderEntry& entry, const std::filesystem::path& path) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& dtype) { return entry.dtype == dtype.name; });
  if (found == kDtypes.end())
    unsupported_numbers(path,
                        "tensor " + in_quotes(entry.name) + " has numbers of type " + in_quotes(entry.dtype));
  return found->type;
}

/// The number of bytes for an entry's shape; throws corrupt_data if it is too large to represent.
uint64_t bytes_of(const HeaderEntry& entry, at::ScalarType type, const std::filesystem::path& path) {
  // LibTorch multiplies sizes and strides as signed numbers, even if one of them is 0.
  int64_t bytes = static_cast<int64_t>(c10::elementSize(type));
  bool empty = false;
  for (const uint64_t size : entry.shape) {
    if (size == 0) empty = true;
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))
      corrupt(path, "tensor " + in_quotes(entry.name) + " has a shape that is too large");
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

/// The tensors must fill the data without gap, overlap or remainder.
void check_offsets(const std::vector<HeaderEntry>& entries, uint64_t data_bytes,
                   const std::filesystem::path& path) {
  std::vector<const HeaderEntry*> sorted;
  for (const HeaderEntry& entry : entries) {
    const uint64_t wanted = bytes_of(entry, type_of(entry, path), path);
    if (entry.begin > entry.end || entry.end > data_bytes) {
      corrupt(path, "tensor " + in_quotes(entry.name) + " would extend to byte " + std::to_string(entry.end) +
                        " of " + std::to_string(data_bytes));
    }
    if (entry.end - entry.begin != wanted) {
      corrupt(path, "tensor " + in_quotes(entry.name) + " has " + std::to_string(entry.end - entry.begin) +
                        " bytes, but its shape needs " + std::to_string(wanted));
    }
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t filled = 0;
  for (const HeaderEntry* entry : sorted) {
    if (entry->begin != filled) {
      corrupt(path, "tensor " + in_quotes(entry->name) + " begins at byte " + std::to_string(entry->begin) +
                        " of the data instead of byte " + std::to_string(filled));
    }
    filled = entry->end;
  }
  if (filled != data_bytes)
    corrupt(path, "its data has " + std::to_string(data_bytes) + " bytes, but its tensors have " +
                      std::to_string(filled));
}

at::Tensor read_tensor(const InputFile& file, const HeaderEntry& entry, uint64_t data_begin,
                       const std::filesystem::path& path) {
  const at::ScalarType type = type_of(entry, path);
  const std::vector<int64_t> shape(entry.shape.begin(), entry.shape.end());
  at::Tensor tensor;
  try {
    tensor = at::empty(shape, at::TensorOptions().dtype(type));
  } catch (const c10::Error&) {
    throw Error(ErrorCode::out_of_memory, "tensor " + in_quotes(entry.name) + " of " +
                                              as_bytes(static_cast<int64_t>(entry.end - entry.begin)) +
                                              " in \"" + path.string() + "\" does not fit into memory");
  }
  file.read(data_begin + entry.begin, tensor.data_ptr(), entry.end - entry.begin);
  if (has_bad_bools(tensor))
    corrupt(path, "tensor " + in_quotes(entry.name) + " contains bytes that are neither true nor false");
  return tensor;
}

/// The layout of a file: the header lists tensors in the given order; the data has tensors of larger number
/// types first, so that each begins at a multiple of its number's size.
struct Layout {
  std::vector<size_t> order;
  std::string header;
};

const char* dtype_name(const std::string& name, const at::Tensor& tensor) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& dtype) { return tensor.scalar_type() == dtype.type; });
  if (found == kDtypes.end()) {
    throw Error(ErrorCode::invalid_option, "tensor " + in_quotes(name) + " has numbers of type " +
                                               c10::toString(tensor.scalar_type()) +
                                               ", which cannot be written to safetensors files");
  }
  return found->name;
}

void check_names(const NamedTensors& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__" || !names.insert(name).second) {
      throw Error(ErrorCode::invalid_option,
                  "a safetensors file cannot contain two tensors named " + in_quotes(name));
    }
    if (!tensor.defined())
      throw Error(ErrorCode::internal, "tensor " + in_quotes(name) + " to be written is undefined");
  }
}

std::string dumped(const Json& header) {
  try {
    return header.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::invalid_option, "a name or text for a safetensors file is not UTF-8");
  }
}

Layout layout_of(const NamedTensors& tensors, const Metadata& metadata) {
  check_names(tensors);
  Layout layout;
  layout.order.resize(tensors.size());
  std::iota(layout.order.begin(), layout.order.end(), size_t{0});
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](size_t a, size_t b) {
    return tensors[a].second.element_size() > tensors[b].second.element_size();
  });
  std::vector<uint64_t> begins(tensors.size());
  uint64_t end = 0;
  for (const size_t index : layout.order) {
    begins[index] = end;
    end += static_cast<uint64_t>(tensors[index].second.nbytes());
  }
  Json::object_t header;  // appended directly: ordered_json searches all keys at each insertion
  if (!metadata.empty()) header.push_back({"__metadata__", metadata});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    header.push_back({name,
                      {{"dtype", dtype_name(name, tensor)},
                       {"shape", tensor.sizes().vec()},
                       {"data_offsets", {begins[i], begins[i] + tensor.nbytes()}}}});
  }
  std::string text = dumped(Json(std::move(header)));
  text.append((kDataAlignment - text.size() % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = text.size();
  layout.header.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  layout.header += text;
  return layout;
}

}  // namespace

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::string text = read_header_text(file, path);
  Header header;
  try {
    header = parse_safetensors_header(text);
  } catch (const HeaderError& error) {
    corrupt(path, error.reason);
  }
  const uint64_t data_begin = kLengthBytes + text.size();
  check_offsets(header.entries, file.size() - data_begin, path);
  SafetensorsFile result{{}, std::move(header.metadata)};
  for (const HeaderEntry& entry : header.entries)
    result.tensors.emplace_back(entry.name, read_tensor(file, entry, data_begin, path));
  return result;
}

std::string safetensors_header(const NamedTensors& tensors, const Metadata& metadata) {
  return layout_of(tensors, metadata).header;
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata) {
  const Layout layout = layout_of(tensors, metadata);
  write_file_synced(path, [&](const Sink& sink) {
    sink(layout.header);
    for (const size_t index : layout.order) {
      const at::Tensor tensor = tensors[index].second.detach().to(at::kCPU).contiguous();
      if (tensor.nbytes() > 0) sink(bytes_of(tensor));
    }
  });
}

void write_safetensors_atomic(const std::filesystem::path& path, const NamedTensors& tensors,
                              const Metadata& metadata) {
  write_aside(
      path, [&](const std::filesystem::path& neighbour) { write_safetensors(neighbour, tensors, metadata); });
}

}  // namespace lockstep::nn
