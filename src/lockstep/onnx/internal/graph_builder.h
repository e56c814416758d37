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
  explicit GraphBuilder(proto::Graph& graph) : graph_(graph) {}

  /// Keeps this name of a value for the caller.
  void reserve(const std::string& value) { taken_.insert(value); }

  /// Adds an operator; returns the names of its values, the first of which is the node's name if it is free.
  std::vector<std::string> add_all(const NodeSpec& node);
  std::string add(const NodeSpec& node) { return add_all(node).front(); }

  /// Adds a constant tensor, in float32 or int64; returns its name. The name of a learnable stays as it is.
  std::string add_tensor(const std::string& name, const at::Tensor& tensor);
  std::string add_number(const std::string& name, double value);
  std::string add_integers(const std::string& name, const std::vector<int64_t>& values);

  /// Renames a value that no operator reads.
  void name_output(const std::string& value, const std::string& name);

 private:
  std::string free_name(const std::string& wanted);

  proto::Graph& graph_;
  std::set<std::string> taken_;
};

}  // namespace lockstep::onnx
