// The pickle and the tensors' bytes of a file of torch.save, in both of its formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <c10/core/ScalarType.h>

#include "lockstep/nn/internal/pickle.h"

namespace lockstep::nn {

/// Throws corrupt_data: "... is not a valid PyTorch file: REASON".
[[noreturn]] void bad_torch_file(const std::filesystem::path& path, const std::string& reason);

/// The type of "torch.FloatStorage"; Undefined for a text that read_pickle does not accept.
c10::ScalarType storage_type(std::string_view name);

/// The bytes of tensors, by the keys that the pickle names them with.
class StorageBytes {
 public:
  virtual ~StorageBytes() = default;
  /// Throws corrupt_data if it is more than `most`.
  virtual uint64_t size_of(const std::string& key, uint64_t most) const = 0;
  virtual void read(const std::string& key, char* to, uint64_t bytes) const = 0;
  virtual uint64_t file_bytes() const = 0;
};

struct OpenedTorchFile {
  Pickle state;
  std::unique_ptr<StorageBytes> storages;
};

/// Opens a zip, as PyTorch writes since 1.6, or the format before it. Throws corrupt_data, and PickleError.
OpenedTorchFile open_torch_file(const std::filesystem::path& path);

}  // namespace lockstep::nn
