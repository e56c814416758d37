// Networks as graphs of named layers: read from JSON, checked before anything is built, shown as tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// A tensor of a layer, named as after the layer's name in the state dict, e.g. "weight".
struct LayerTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// One row of `lockstep network show`.
struct LayerRow {
  std::string name;                   ///< its path in the state dict, e.g. "features.0"
  std::string type;                   ///< e.g. "conv2d"
  std::string detail;                 ///< e.g. "20 of 5x5, padding 1x1"
  std::vector<std::string> inputs{};  ///< names of layers, or "input"
  std::vector<int64_t> shape;         ///< of its output without the batch, e.g. {20, 24, 24}
  std::vector<LayerTensor> learnables{};
  std::vector<LayerTensor> states{};  ///< running statistics
  int64_t learnable_count = 0;        ///< numbers in all learnables
  int64_t state_count = 0;            ///< numbers in all states
  /// For convolutions: whether own kernels run it on a CPU, for this many images at once, in float32 or
  /// (half) bfloat16.
  std::function<bool(int64_t batch, bool half)> runs_direct{};
};

/// A checked network: the rows in order of evaluation.
struct NetworkTable {
  std::vector<LayerRow> rows;
  int64_t learnable_count() const;  ///< numbers that training changes
  int64_t state_count() const;      ///< numbers in running statistics
  int64_t learnable_tensor_count() const;
  int64_t state_tensor_count() const;
};

/// Reads a layer graph. Its form is in docs/networks.md. Throws invalid_option naming the layer and what is
/// wrong with it.
Network read_network(const Json& json, std::string name);
Network read_network_file(const std::filesystem::path& path);

/// A built-in network by name, or the file when `name` ends in .json. Throws invalid_option with the nearest
/// name.
Network find_network(const std::string& name);
std::vector<std::string> builtin_network_names();

/// The images or sequences that a built-in network was made for, and how many classes; nothing for other
/// networks.
std::optional<NetworkInput> native_input(const std::string& name);

/// Checks every layer of a layer graph for this input and gives its table. Throws invalid_option that names
/// the layer that does not fit.
NetworkTable inspect_network(const Network& network, const NetworkInput& input);

/// Its head and a row of texts for each layer, seven columns.
std::vector<std::vector<std::string>> network_table_cells(const NetworkTable& table);

/// How many layers, tensors and numbers it has in all, one line.
std::string network_totals_text(const NetworkTable& table);

/// The table laid out for a terminal: layers, connections, shapes, learnables, state, then the totals. Lines
/// end in newlines.
std::string network_table_text(const NetworkTable& table);

}  // namespace lockstep::nn
