#include "lockstep/onnx/internal/layer_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "lockstep/base/text.h"

namespace lockstep::onnx {
namespace {

constexpr size_t kMostNameBytes = 190;  // a layer's name may have 200

bool is_good(const std::string& name) {
  if (name.empty() || name.size() > kMostNameBytes || name == "input" || !is_utf8(name)) return false;
  const std::vector<std::string> parts = split(name, '.');
  return printable(name) == name && name.find_first_of(" \"/:") == std::string::npos &&
         std::none_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
}

/// "layer1.0.conv1.weight" -> "layer1.0.conv1"; empty for other names.
std::string name_by_tensor(const LayerDraft& layer) {
  for (const char* end : {".weight", ".weight_ih_l0"}) {
    if (layer.tensor_name.ends_with(end))
      return layer.tensor_name.substr(0, layer.tensor_name.size() - std::string_view(end).size());
  }
  return "";
}

/// PyTorch's older exporter names a node by its scope: "/features/features.1/conv/conv.0/Conv" is
/// features.1.conv.0.
std::string name_by_scope(const LayerDraft& layer) {
  if (!layer.node_name.starts_with("/")) return "";
  std::vector<std::string> scope;
  std::vector<std::string> parts = split(layer.node_name.substr(1), '/');
  parts.pop_back();  // the operator
  for (const std::string& part : parts) {
    if (!scope.empty() && part.starts_with(scope.back() + ".")) scope.pop_back();
    scope.push_back(part);
  }
  return join(scope, ".");
}

class Names {
 public:
  /// Whether it was free; a name may neither be another's group nor lie in another layer.
  bool take(const std::string& name) {
    if (!is_good(name) || names_.contains(name) || groups_.contains(name)) return false;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      if (names_.contains(name.substr(0, dot))) return false;
    }
    names_.insert(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      groups_.insert(name.substr(0, dot));
    return true;
  }

  std::string take_numbered(const std::string& name) {
    if (take(name)) return name;
    for (int64_t& i = next_[name];;) {
      const std::string numbered = name + "_" + std::to_string(++i);
      if (take(numbered)) return numbered;
    }
  }

 private:
  std::set<std::string> names_, groups_;
  std::map<std::string, int64_t> next_;
};

}  // namespace

std::vector<std::string> names_of(const std::vector<LayerDraft>& layers, bool own_names) {
  Names names;
  std::vector<std::string> found(layers.size());
  // Layers with weights first, because their names are those of their tensors.
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = name_by_tensor(layers[i]);
    if (names.take(name)) found[i] = name;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!found[i].empty()) continue;
    const std::string own = own_names ? layers[i].node_name.substr(0, layers[i].node_name.find('/')) : "";
    const std::string scope = name_by_scope(layers[i]);
    for (const std::string& name : {own, scope, scope + "." + layers[i].type}) {
      if (!found[i].empty() || !names.take(name)) continue;
      found[i] = name;
    }
    if (found[i].empty()) found[i] = names.take_numbered(layers[i].type);
  }
  return found;
}

}  // namespace lockstep::onnx
