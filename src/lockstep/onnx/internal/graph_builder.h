// Puts the parts of an ONNX graph together.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/onnx/model.pb.h"

namespace lockstep::onnx {

/// ONNX's numbers of types.
enum ElementType : int32_t { kFloat32 = 1, kInt64 = 7 };

/// ONNX's numbers of kinds of attributes.
enum AttributeType : int32_t {
  kFloatAttribute = 1,
  kIntAttribute = 2,
  kTextAttribute = 3,
  kTensorAttribute = 4,
  kFloatsAttribute = 6,
  kIntsAttribute = 7,
};

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// One operator. `name` is that of its layer, or begins with it.
struct NodeSpec {
  std::string op;
  std::string name;
  std::vector<std::string> inputs;
  Attributes attributes = {};
  size_t outputs = 1;  ///< how many values it gives; a further one is named NAME/2 and so on
};

class GraphBuilder {
 public:
  /// most_bytes: of the constants for which take_room is called
  GraphBuilder(proto::Graph& graph, int64_t most_bytes) : graph_(graph), room_(most_bytes) {}

  /// Keeps this name of a value for the caller.
  void reserve(const std::string& value) { taken_.insert(value); }

  /// Adds an operator; returns the names of its values, the first of which is the node's name if it is free.
  std::vector<std::string> add_all(const NodeSpec& node);
  std::string add(const NodeSpec& node) { return add_all(node).front(); }

  /// Adds a constant tensor, in float32 or int64; returns its name. The name of a learnable stays as it is.
  std::string add_tensor(const std::string& name, const at::Tensor& tensor);
  std::string add_number(const std::string& name, double value);
  std::string add_integers(const std::string& name, const std::vector<int64_t>& values);

  /// For constants that grow with the sizes of a layer and not with its learnables: to be called before
  /// float32 [rows,columns] is computed. Throws invalid_option if all of these take more bytes than the graph
  /// may have.
  void take_room(const std::string& layer, int64_t rows, int64_t columns);

  /// Renames a value that no operator reads.
  void name_output(const std::string& value, const std::string& name);

 private:
  std::string free_name(const std::string& wanted);

  proto::Graph& graph_;
  std::set<std::string> taken_;
  int64_t room_;  ///< bytes that are left
};

}  // namespace lockstep::onnx
