// Goes through the operators of an ONNX graph and finds the layers that they are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/onnx/internal/read_model.h"
#include "lockstep/onnx/internal/values.h"
#include "lockstep/onnx/import_onnx.h"

namespace lockstep::onnx {

/// Why a node has no layer; the message continues `Conv "conv1": `.
struct Unsupported {
  std::string reason;
};

/// What the importer has found.
struct FoundLayers {
  std::vector<LayerDraft> layers;
  View input;   ///< the network's input
  View output;  ///< labels N,F or N,C,T in any order
  std::vector<double> mean, deviation;
  std::vector<std::string> notes;
};

class Importer {
 public:
  /// The model, and the folder of external data, must exist as long as this.
  Importer(const proto::Model& model, const ImportOptions& options);

  /// Throws as import_onnx.
  FoundLayers find();

  // For the functions of operators.

  const proto::Node& node() const { return *node_; }
  int64_t version() const { return version_; }
  bool has_input(int index) const { return index < node_->input_size() && !node_->input(index).empty(); }
  const Value& value(int index);
  /// Throws Unsupported if it is another kind of value, or missing.
  const View& view(int index);
  at::Tensor constant(int index);
  std::optional<at::Tensor> optional_constant(int index);
  /// The numbers of a constant, at most a thousand.
  std::vector<int64_t> integers(int index);

  const proto::Attribute* attribute(const char* name) const;
  int64_t integer_attribute(const char* name, int64_t otherwise) const;
  double number_attribute(const char* name, double otherwise) const;
  std::string text_attribute(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integers_attribute(const char* name) const;

  /// Adds a layer that reads `inputs`, and returns its index. Throws Unsupported for inputs with padding,
  /// which only convolutions and means over windows take over, and corrupt_data for far more numbers than the
  /// file has.
  size_t add_layer(LayerDraft layer, const std::vector<View>& inputs);
  LayerDraft& layer(size_t index) { return found_.layers[index]; }
  void set_output(int index, Value value);
  /// The name of the tensor of the file that an input is.
  std::string tensor_name(int index) const { return node_->input(index); }
  /// Whether the node's input has no other reader.
  bool is_only_reader(int index) const;
  /// The operator of the only node that reads the node's output; empty if there are several or none.
  std::string reader_of_output() const;
  bool is_graph_output(int index) const;
  /// Whether a node or the graph reads the output.
  bool is_read(int index) const;
  at::Tensor attribute_tensor(const proto::Attribute& attribute);
  void note(std::string text) { found_.notes.push_back(std::move(text)); }
  /// Counts numbers that were computed; throws Unsupported when there are too many.
  void charge(int64_t numbers);

 private:
  void read_input();
  void read_output();
  std::vector<bool> needed_nodes() const;
  void run(const proto::Node& node);
  at::Tensor counted(at::Tensor tensor);
  [[noreturn]] void refuse_problems() const;
  size_t use(const View& view);
  void use_normalization(const View& view);

  const proto::Graph& graph_;
  ImportOptions options_;
  TensorReader tensors_;
  int64_t version_ = 0;
  bool is_own_ = false;  ///< whether Lockstep has written the file, whose images are pixels from 0 to 255
  const proto::Node* node_ = nullptr;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, const proto::Tensor*> stored_;
  std::unordered_map<std::string, std::vector<const proto::Node*>> readers_;
  std::vector<std::string> problems_;
  int64_t problem_count_ = 0;
  int64_t numbers_left_ = int64_t{1} << 28;
  int64_t numbers_read_ = 0;  ///< of tensors of the file
  int64_t numbers_of_layers_ = 0;
  std::optional<View> used_input_;  ///< the first use of the network's input
  FoundLayers found_;
};

/// Imports the importer's node. Throws Unsupported.
using ImportNode = void (*)(Importer& importer);

/// The function of an operator; null if there is none.
ImportNode layer_operator(const std::string& op);       // layer_operators.cpp
ImportNode shape_operator(const std::string& op);       // shape_operators.cpp
ImportNode recurrent_operator(const std::string& op);   // recurrent_operators.cpp
ImportNode arithmetic_operator(const std::string& op);  // arithmetic_operators.cpp
/// Computes the node if all of its inputs are constants.
bool import_constant(Importer& importer);  // constant_operators.cpp

/// "[batch,3,224,224]"
std::string axes_text(const std::vector<Axis>& axes);
/// "C" for channels or features: the place of that axis.
std::optional<size_t> channel_axis(const View& view);
/// Counted from the end if negative; throws Unsupported outside of `rank`.
size_t axis_of(int64_t axis, size_t rank);

}  // namespace lockstep::onnx
