// Writes networks as ONNX files.
#pragma once

#include <string>

#include "lockstep/onnx/trained_network.h"

namespace lockstep::onnx {

struct ExportOptions {
  bool fold_batch_norm = false;   ///< batch norms become part of the layer before them
  bool normalized_input = false;  ///< the caller of the file normalises the input; otherwise the file does
  bool scores = false;            ///< a softmax follows the logits
};

/// The bytes of an ONNX file, operator set 17.
///   input   float32 [batch,C,H,W]: pixels from 0 to 255, of colours red, green, blue; for sequences
///           [batch,C,time], without padding
///   output  "logits" or "scores", float32 [batch,classes], or [batch,classes,time]
/// Metadata: "classes", a JSON list; without fold_batch_norm also "lockstep", from which import restores the
/// layer graph. Weights are rounded to float32. A pure function. Throws invalid_option for a C++
/// module, a layer that ONNX cannot express, and more than the 2 GB of such a file; corrupt_data for weights
/// that do not fit the network.
std::string to_onnx(const TrainedNetwork& trained, const ExportOptions& options = {});

}  // namespace lockstep::onnx
