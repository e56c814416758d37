// How each type of layer is written in ONNX's operators.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/json.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/layer_tensors.h"
#include "lockstep/onnx/internal/graph_builder.h"

namespace lockstep::onnx {

/// A layer whose inputs have been written.
struct LayerToWrite {
  const nn::GraphLayer& layer;
  const nn::LayerPlan& plan;
  Json options;                     ///< with numbers in place of "classes"
  std::vector<std::string> inputs;  ///< names of values
  std::vector<nn::Shape> shapes;    ///< of the inputs, without the batch
  const nn::LayerTensors& tensors;

  const std::string& name() const { return layer.name; }
  /// The options of its type; fields of other structs are ignored.
  template <Described Options>
  Options options_as() const {
    Options read;
    read_json(options, read, "");
    return read;
  }
};

/// Writes the layer and returns the name of its output. Throws invalid_option if ONNX has no such layer.
std::string write_layer(GraphBuilder& graph, const LayerToWrite& layer);

/// In recurrent_writers.cpp.
std::string write_lstm(GraphBuilder& graph, const LayerToWrite& layer);
std::string write_bilstm(GraphBuilder& graph, const LayerToWrite& layer);
std::string write_gru(GraphBuilder& graph, const LayerToWrite& layer);

}  // namespace lockstep::onnx
