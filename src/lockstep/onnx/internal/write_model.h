// The parts of an ONNX file that export writes, and that import compares with.
#pragma once

#include <limits>
#include <map>
#include <string>

#include "lockstep/onnx/export_onnx.h"
#include "lockstep/onnx/model.pb.h"

namespace lockstep::onnx {

/// A limit of protobuf.
inline constexpr size_t kMostModelBytes = std::numeric_limits<int32_t>::max();

/// The entry of the metadata from which import restores the layer graph, as JSON.
inline constexpr const char* kOwnKey = "lockstep";
/// The end of the names of tensors that ONNX has no place for; the entry holds their values.
inline constexpr const char* kBatchCount = ".num_batches_tracked";

/// Throws invalid_option if constants that are not learnables take more than `most_bytes`.
proto::Graph graph_of(const TrainedNetwork& trained, const ExportOptions& options,
                      size_t most_bytes = kMostModelBytes);

/// The metadata by name.
std::map<std::string, std::string> metadata_of(const TrainedNetwork& trained, const ExportOptions& options);

}  // namespace lockstep::onnx
