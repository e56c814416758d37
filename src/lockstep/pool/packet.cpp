#include "lockstep/pool/packet.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/file.h"

namespace lockstep::pool {
namespace {

// The reader and writer of safetensors work with files; this one has no name and is not on a disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("lockstep-tensors", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw errno_error(errno, "make", "memory for tensors");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

std::shared_ptr<const std::string> tensor_bytes(const nn::NamedTensors& tensors) {
  if (tensors.empty()) return nullptr;
  const MemoryFile file;
  nn::write_safetensors(file.path(), tensors);
  return std::make_shared<const std::string>(read_file(file.path()));
}

nn::NamedTensors open_tensors(const Packet& packet) {
  if (packet.bytes == nullptr || packet.bytes->empty()) return packet.tensors;
  const MemoryFile file;
  write_file_synced(file.path(), [&](const Sink& sink) { sink(*packet.bytes); });
  return nn::read_safetensors(file.path()).tensors;
}

namespace packet_detail {

at::Tensor travelling(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU); }

const at::Tensor& find_tensor(const nn::NamedTensors& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  if (found == tensors.end())
    throw Error(ErrorCode::corrupt_data, "the tensor \"" + name + "\" did not come with its struct");
  return found->second;
}

const Json& find_field(const Json& fields, const std::string& name) {
  const auto found = fields.is_object() ? fields.find(name) : fields.end();
  if (!fields.is_object() || found == fields.end()) {
    throw Error(ErrorCode::corrupt_data, "what came has no field \"" + name + "\"",
                "are sender and receiver of one type?");
  }
  return *found;
}

void check_names(const Json& fields, const std::vector<std::string>& known) {
  for (const auto& [name, value] : fields.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(ErrorCode::corrupt_data, "what came has a field \"" + name + "\" that is not known here",
                "are sender and receiver of one type?");
  }
}

// JSON has no words for these three.
Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_in(const std::string& name, const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorCode::corrupt_data, "the field \"" + name + "\" that came is no number");
}

void not_all_described(size_t described, size_t members) {
  throw Error(ErrorCode::internal,
              "a struct that travels has " + std::to_string(members) + " members, of which " +
                  std::to_string(described) + " are described",
              "every member needs its line in describe");
}

}  // namespace packet_detail
}  // namespace lockstep::pool
