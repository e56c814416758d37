// Reads the bytes of an untrusted ONNX file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "lockstep/onnx/model.pb.h"

namespace lockstep::onnx {

/// Checked: it has a graph, and its parts are not more than memory should hold. Throws corrupt_data that
/// names the file.
proto::Model read_model(std::string_view bytes, const std::string& file);

/// The tensors of a model, read when they are asked for.
class TensorReader {
 public:
  /// folder: where files of external data are; empty: they are refused
  explicit TensorReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The numbers of `tensor`, as long as it exists. Throws corrupt_data naming the tensor, invalid_option for
  /// types that are not numbers, not_found and io for external data.
  at::Tensor read(const proto::Tensor& tensor);

 private:
  at::Tensor read_external(const proto::Tensor& tensor, const at::Tensor& empty);

  std::filesystem::path folder_;
  std::map<std::string, int64_t> bytes_left_;  ///< of each file of external data, which tensors may read
};

/// A name from the file in quotes, cut and without control characters.
std::string name_text(const std::string& name);

}  // namespace lockstep::onnx
