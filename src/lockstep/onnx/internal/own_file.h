// Files that Lockstep itself has written.
#pragma once

#include <optional>

#include "lockstep/onnx/import_onnx.h"
#include "lockstep/onnx/internal/read_model.h"

namespace lockstep::onnx {

/// The network from which to_onnx made the model: its layer graph is in the metadata. Nothing if writing this
/// network again would not give the same operators and tensors, so metadata cannot mislead.
std::optional<Imported> restore_own(const proto::Model& model, TensorReader& tensors);

}  // namespace lockstep::onnx
