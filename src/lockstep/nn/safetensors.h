// The safetensors file format: u64 header length, JSON header, packed little-endian data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::nn {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// The contents of a file. Tensors own their memory, on the CPU, in file order.
struct SafetensorsFile {
  NamedTensors tensors;
  Metadata metadata;
};

/// Reads an untrusted file: header size, JSON, names, dtypes, shapes and offsets are checked against the
/// file's size before memory is allocated. Throws corrupt_data naming the file and the problem.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

/// The bytes of a file: tensors in the given order, with the header padded with spaces so that data starts
/// 8-aligned. A pure function of its arguments, so equal weights give equal files.
std::string safetensors_header(const NamedTensors& tensors, const Metadata& metadata = {});

/// Writes and syncs `path` in place; for files in a folder that is renamed afterwards.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {});

/// The same, through a temporary file that is renamed to `path`.
void write_safetensors_atomic(const std::filesystem::path& path, const NamedTensors& tensors,
                              const Metadata& metadata = {});

}  // namespace lockstep::nn
