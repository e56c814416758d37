#include "lockstep/onnx/internal/graph_builder.h"

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/tensor_bytes.h"

namespace lockstep::onnx {
namespace {

void set_value(proto::Attribute& attribute, const AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    attribute.set_type(kIntAttribute);
    attribute.set_i(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    attribute.set_type(kFloatAttribute);
    attribute.set_f(static_cast<float>(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_type(kTextAttribute);
    attribute.set_s(*text);
  } else {
    attribute.set_type(kIntsAttribute);
    for (const int64_t item : std::get<std::vector<int64_t>>(value)) attribute.add_ints(item);
  }
}

}  // namespace

std::string GraphBuilder::free_name(const std::string& wanted) {
  std::string name = wanted;
  for (int64_t i = 2; !taken_.insert(name).second; ++i) name = wanted + "/" + std::to_string(i);
  return name;
}

std::vector<std::string> GraphBuilder::add_all(const NodeSpec& node) {
  proto::Node& added = *graph_.add_node();
  added.set_op_type(node.op);
  added.set_name(node.name);
  for (const std::string& input : node.inputs) added.add_input(input);
  for (const auto& [name, value] : node.attributes) {
    proto::Attribute& attribute = *added.add_attribute();
    attribute.set_name(name);
    set_value(attribute, value);
  }
  std::vector<std::string> values;
  for (size_t i = 0; i < node.outputs; ++i) {
    values.push_back(free_name(node.name));
    added.add_output(values.back());
  }
  return values;
}

std::string GraphBuilder::add_tensor(const std::string& name, const at::Tensor& tensor) {
  const bool integers = !tensor.is_floating_point();
  const at::Tensor values = tensor.to(at::kCPU, integers ? at::kLong : at::kFloat).contiguous();
  proto::Tensor& added = *graph_.add_initializer();
  for (const int64_t size : values.sizes()) added.add_dims(size);
  added.set_data_type(integers ? kInt64 : kFloat32);
  added.set_name(free_name(name));
  added.set_raw_data(std::string(nn::bytes_of(values)));
  return added.name();
}

std::string GraphBuilder::add_number(const std::string& name, double value) {
  return add_tensor(name, at::scalar_tensor(value, at::kDouble));
}

std::string GraphBuilder::add_integers(const std::string& name, const std::vector<int64_t>& values) {
  return add_tensor(name, at::tensor(values, at::kLong));
}

void GraphBuilder::take_room(const std::string& layer, int64_t rows, int64_t columns) {
  constexpr int64_t kNumberBytes = sizeof(float);
  int64_t numbers = 0;
  if (__builtin_mul_overflow(rows, columns, &numbers) || numbers > room_ / kNumberBytes)
    throw Error(ErrorCode::invalid_option,
                "layer " + quote(layer) + " would need a constant of " + with_commas(rows) + " x " +
                    with_commas(columns) + " numbers in an ONNX file, which has room for " + as_bytes(room_),
                "export its weights as safetensors, and its layers as .json, .py or .cpp");
  room_ -= numbers * kNumberBytes;
}

void GraphBuilder::name_output(const std::string& value, const std::string& name) {
  for (proto::Node& node : *graph_.mutable_node()) {
    for (std::string& output : *node.mutable_output()) {
      if (output == value) output = name;
    }
  }
}

}  // namespace lockstep::onnx
