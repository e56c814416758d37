#include "lockstep/onnx/internal/read_model.h"

#include <array>
#include <limits>

#include <ATen/Functions.h>
#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layer.h"

namespace lockstep::onnx {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int64_t kMostParts = 2'000'000;  // each takes up to 200 bytes of memory, and two bytes of a file
constexpr size_t kMostShownBytes = 80;
constexpr const char* kDamaged = "a part of it cannot be read";
constexpr int64_t kExternalReads = 2;  // how often all bytes of a file of external data may be read

/// The messages whose parts are messages or texts themselves: the place of each in this table, by field.
struct PartKind {
  int field;
  int kind;
};
enum Kind { kModel, kGraph, kNode, kAttribute, kTensor, kValue, kType, kTensorType, kShape, kOther };
const std::vector<PartKind>& parts_of(int kind) {
  static const std::array<std::vector<PartKind>, kOther + 1> parts{
      std::vector<PartKind>{{7, kGraph}, {8, kOther}, {14, kOther}},
      {{1, kNode}, {5, kTensor}, {11, kValue}, {12, kValue}},
      {{5, kAttribute}},
      {{5, kTensor}},
      {{13, kOther}},
      {{2, kType}},
      {{1, kTensorType}},
      {{2, kShape}},
      {{1, kOther}},
      {}};
  return parts[static_cast<size_t>(kind)];
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::corrupt_data, quote(file) + " is not a complete ONNX file: " + why,
              "the file may have another format or may be incomplete; export or download it again");
}

/// Counts texts, lists and messages before memory is allocated for them.
void count_parts(CodedInputStream& input, int kind, int64_t& left, const std::string& file) {
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) refuse(file, kDamaged);
      continue;
    }
    if (--left < 0)
      throw Error(ErrorCode::corrupt_data,
                  quote(file) + " has more than " + with_commas(kMostParts) + " parts");
    int length = 0;
    if (!input.ReadVarintSizeAsInt(&length) || length > input.BytesUntilLimit())
      refuse(file, "a part of it would be longer than the file");
    int inner = -1;
    for (const PartKind& part : parts_of(kind)) {
      if (part.field == WireFormatLite::GetTagFieldNumber(tag)) inner = part.kind;
    }
    if (inner < 0) {
      input.Skip(length);
      continue;
    }
    const auto limit = input.PushLimit(length);
    count_parts(input, inner, left, file);
    input.PopLimit(limit);
  }
  if (input.BytesUntilLimit() > 0) refuse(file, kDamaged);
}

at::ScalarType type_of(const proto::Tensor& tensor) {
  switch (tensor.data_type()) {
    case 1:
      return at::kFloat;
    case 2:
      return at::kByte;
    case 3:
      return at::kChar;
    case 5:
      return at::kShort;
    case 6:
      return at::kInt;
    case 7:
      return at::kLong;
    case 9:
      return at::kBool;
    case 10:
      return at::kHalf;
    case 11:
      return at::kDouble;
    case 16:
      return at::kBFloat16;
    default:
      throw Error(ErrorCode::invalid_option, "tensor " + name_text(tensor.name()) + " has numbers of type " +
                                                 std::to_string(tensor.data_type()) +
                                                 ", which Lockstep does not have");
  }
}

std::vector<int64_t> shape_of(const proto::Tensor& tensor) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const int64_t size : tensor.dims()) {
    shape.push_back(size);
    if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > nn::kMostNumbers)
      throw Error(ErrorCode::corrupt_data, "tensor " + name_text(tensor.name()) + " has the shape " +
                                               nn::shape_text({tensor.dims().begin(), tensor.dims().end()}) +
                                               ", which is not possible");
  }
  return shape;
}

[[noreturn]] void wrong_size(const proto::Tensor& tensor, int64_t has, int64_t needs, const char* unit) {
  throw Error(ErrorCode::corrupt_data, "tensor " + name_text(tensor.name()) + " has " + with_commas(has) +
                                           " " + unit + ", but its shape needs " + with_commas(needs));
}

/// From one of the lists of numbers.
template <class Number, class List>
at::Tensor from_list(const proto::Tensor& tensor, const List& list, const std::vector<int64_t>& shape) {
  const at::Tensor values = at::empty({list.size()}, c10::CppTypeToScalarType<Number>::value);
  std::copy(list.begin(), list.end(), values.mutable_data_ptr<Number>());
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  if (count != list.size()) wrong_size(tensor, list.size(), count, "numbers");
  return values.view(shape);
}

// The bits of 16-bit floating-point numbers are in the list of integers.
at::Tensor from_halves(const proto::Tensor& tensor, const std::vector<int64_t>& shape, at::ScalarType type) {
  const at::Tensor bits = from_list<int32_t>(tensor, tensor.int32_data(), shape);
  return bits.to(at::kShort).view(type);
}

at::Tensor from_lists(const proto::Tensor& tensor, const std::vector<int64_t>& shape, at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return from_list<float>(tensor, tensor.float_data(), shape);
    case at::kDouble:
      return from_list<double>(tensor, tensor.double_data(), shape);
    case at::kLong:
      return from_list<int64_t>(tensor, tensor.int64_data(), shape);
    case at::kHalf:
    case at::kBFloat16:
      return from_halves(tensor, shape, type);
    default:
      return from_list<int32_t>(tensor, tensor.int32_data(), shape).to(type);
  }
}

struct ExternalPlace {
  std::string file;
  int64_t offset = 0;
  int64_t length = -1;  ///< -1: not stated
};

ExternalPlace place_of(const proto::Tensor& tensor) {
  ExternalPlace place;
  const auto number = [&](const proto::Entry& entry) {
    const auto value = parse_number<int64_t>(entry.value());
    if (!value || *value < 0)
      throw Error(ErrorCode::corrupt_data, "tensor " + name_text(tensor.name()) + " has external data with " +
                                               name_text(entry.key()) + " " + name_text(entry.value()));
    return *value;
  };
  for (const proto::Entry& entry : tensor.external_data()) {
    if (entry.key() == "location") place.file = entry.value();
    if (entry.key() == "offset") place.offset = number(entry);
    if (entry.key() == "length") place.length = number(entry);
  }
  return place;
}

/// The path of a file in `folder`, or below it. Links that lead out of it are refused.
std::filesystem::path path_within(const std::filesystem::path& folder, const std::string& file,
                                  const proto::Tensor& tensor) {
  const std::filesystem::path path = file;
  const auto no_way = [&](const std::string& why) {
    throw Error(
        ErrorCode::corrupt_data,
        "tensor " + name_text(tensor.name()) + " has its numbers in the file " + name_text(file) + ", " + why,
        "Lockstep reads only files in the folder of the ONNX file");
  };
  bool leads_out = path.empty() || path.is_absolute() || file.find('\0') != std::string::npos;
  for (const auto& part : path) leads_out = leads_out || part == "..";
  if (leads_out) no_way("which is not in the folder of the ONNX file");
  const std::filesystem::path whole = folder.empty() ? path : folder / path;
  std::error_code error;
  const auto real = std::filesystem::canonical(whole, error);
  if (error) throw errno_error(error.value(), "open", whole.string());
  const auto home = std::filesystem::canonical(folder.empty() ? "." : folder, error);
  if (error) throw errno_error(error.value(), "open", folder.string());
  const auto relative = real.lexically_relative(home);
  if (relative.empty() || *relative.begin() == ".." || !std::filesystem::is_regular_file(real, error))
    no_way("which is not a file in the folder of the ONNX file");
  return real;
}

}  // namespace

std::string name_text(const std::string& name) {
  std::string shown = printable(name.substr(0, kMostShownBytes));
  if (!is_utf8(shown)) {
    for (char& c : shown) c = static_cast<unsigned char>(c) < 128 ? c : '?';
  }
  return quote(shown + (name.size() > kMostShownBytes ? "..." : ""));
}

proto::Model read_model(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) refuse(file, "it is empty");
  if (bytes.size() > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::corrupt_data, quote(file) + " has " +
                                             as_bytes(static_cast<int64_t>(bytes.size())) +
                                             ", more than the 2.0 GB that an ONNX file may have");
  const auto size = static_cast<int>(bytes.size());
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  const auto limit = input.PushLimit(size);
  int64_t left = kMostParts;
  count_parts(input, kModel, left, file);
  input.PopLimit(limit);
  proto::Model model;
  if (!model.ParseFromArray(bytes.data(), size)) refuse(file, kDamaged);
  if (!model.has_graph() || model.graph().node_size() == 0)
    refuse(file, "there is no graph of operators in it");
  return model;
}

at::Tensor TensorReader::read(const proto::Tensor& tensor) {
  const std::vector<int64_t> shape = shape_of(tensor);
  const at::ScalarType type = type_of(tensor);
  if (tensor.data_location() == 1)
    return read_external(tensor, at::empty(shape, at::TensorOptions(type).device(at::kMeta)));
  if (!tensor.has_raw_data()) return from_lists(tensor, shape, type);
  int64_t needs = static_cast<int64_t>(c10::elementSize(type));
  for (const int64_t dimension : shape) needs *= dimension;
  const auto has = static_cast<int64_t>(tensor.raw_data().size());
  if (has != needs) wrong_size(tensor, has, needs, "bytes");
  if (needs == 0) return at::empty(shape, type);
  // Not copied: the model lives as long as the import.
  return at::from_blob(const_cast<char*>(tensor.raw_data().data()), shape, at::TensorOptions(type));
}

at::Tensor TensorReader::read_external(const proto::Tensor& tensor, const at::Tensor& empty) {
  const ExternalPlace place = place_of(tensor);
  const std::filesystem::path path = path_within(folder_, place.file, tensor);
  const OpenFile file(path, O_RDONLY);
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  const auto needs = static_cast<int64_t>(empty.nbytes());
  if (place.length >= 0 && place.length != needs) wrong_size(tensor, place.length, needs, "bytes");
  if (place.offset > file_bytes || needs > file_bytes - place.offset)
    throw Error(ErrorCode::corrupt_data, "tensor " + name_text(tensor.name()) + " has its numbers at byte " +
                                             with_commas(place.offset) + " of \"" + path.string() +
                                             "\", which has " + with_commas(file_bytes) + " bytes");
  int64_t& left = bytes_left_.try_emplace(path.string(), kExternalReads * file_bytes).first->second;
  left -= needs;
  if (left < 0)
    throw Error(ErrorCode::corrupt_data,
                "many tensors have their numbers at the same places of \"" + path.string() + "\"");
  const at::Tensor values = at::empty(empty.sizes(), empty.scalar_type());
  if (needs > 0)
    file.read_at(place.offset,
                 std::span(static_cast<char*>(values.mutable_data_ptr()), static_cast<size_t>(needs)));
  return values;
}

}  // namespace lockstep::onnx
