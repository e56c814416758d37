// Networks as graphs of named layers: read from JSON, checked before they are built, shown as tables.
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

/// A tensor of a layer, with its name in the state dict after the layer's name, for example "weight".
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
  int64_t learnable_count = 0;        ///< count of numbers in all learnables
  int64_t state_count = 0;            ///< count of numbers in all states
  /// For convolutions: whether Lockstep's kernels run it on a CPU, for this number of images, in float32 or
  /// (half) bfloat16.
  std::function<bool(int64_t batch, bool half)> runs_direct{};
};

/// A checked network: the rows in order of evaluation.
struct NetworkTable {
  std::vector<LayerRow> rows;
  int64_t learnable_count() const;  ///< count of numbers that training changes
  int64_t state_count() const;      ///< count of numbers in running statistics
  int64_t learnable_tensor_count() const;
  int64_t state_tensor_count() const;
};

/// Reads a layer graph (docs/networks.md describes the format). Throws invalid_option naming the layer and
/// the problem.
Network read_network(const Json& json, std::string name);
Network read_network_file(const std::filesystem::path& path);

/// A built-in network by name, or a file if `name` ends in .json. Throws invalid_option with the nearest
/// name.
Network find_network(const std::string& name);
std::vector<std::string> builtin_network_names();

/// The input that a built-in network was made for: images or sequences, and the number of classes; none for
/// other networks.
std::optional<NetworkInput> native_input(const std::string& name);

/// Checks every layer of a layer graph for this input and returns its table. Throws invalid_option naming the
/// layer that does not fit.
NetworkTable inspect_network(const Network& network, const NetworkInput& input);

/// The table's header and one row of texts per layer, in seven columns.
std::vector<std::vector<std::string>> network_table_cells(const NetworkTable& table);

/// The total number of layers, tensors and numbers, in one line.
std::string network_totals_text(const NetworkTable& table);

/// The table as text for a terminal: layers, connections, shapes, learnables, state, then the totals. Lines
/// end in newlines.
std::string network_table_text(const NetworkTable& table);

}  // namespace lockstep::nn
