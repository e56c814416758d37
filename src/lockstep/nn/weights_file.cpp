#include "lockstep/nn/weights_file.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include <ATen/ops/isfinite.h>
#include <fcntl.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/torch_file.h"
#include "lockstep/nn/trained_weights.h"

namespace lockstep::nn {
namespace {

void take_off(NamedTensors& tensors, std::string_view prefix) {
  const bool all = !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& item) {
    return item.first.starts_with(prefix);
  });
  if (!all) return;
  for (auto& [name, tensor] : tensors) name.erase(0, prefix.size());
}

// The number of tensors that have the shapes of the network trained on ImageNet; 0 if names differ.
size_t fitting_tensors(const Network& network, const NamedTensors& tensors) {
  std::unordered_map<std::string, Shape> shapes;
  try {
    for (const LayerRow& row :
         inspect_network(network, {.channels = 3, .height = 224, .width = 224, .classes = 1000}).rows) {
      for (const LayerTensor& tensor : row.learnables)
        shapes.emplace(row.name + "." + tensor.name, tensor.shape);
    }
  } catch (const Error&) {
    return 0;  // does not accept images
  }
  size_t known = 0, fitting = 0;
  for (const auto& [name, tensor] : tensors) {
    if (const auto found = shapes.find(name); found != shapes.end()) {
      ++known;
      fitting += tensor.sizes() == at::IntArrayRef(found->second);
    } else if (!name.ends_with(".running_mean") && !name.ends_with(".running_var") &&
               !name.ends_with(".num_batches_tracked")) {
      return 0;
    }
  }
  return known == shapes.size() ? fitting : 0;
}

}  // namespace

SafetensorsFile read_weights(const std::filesystem::path& path) {
  std::array<char, 4> head{};
  OpenFile(path, O_RDONLY).read_at(0, head);
  const std::string_view start(head.data(), head.size());
  SafetensorsFile file = start == std::string_view("PK\x03\x04", 4) || start.starts_with("\x80\x02\x8a")
                             ? read_torch_file(path)
                             : read_safetensors(path);
  take_off(file.tensors, "_orig_mod.");
  take_off(file.tensors, "module.");
  return file;
}

std::string not_finite(const NamedTensors& tensors) {
  std::string found;
  int64_t more = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t count =
        tensor.is_floating_point() ? tensor.numel() - at::isfinite(tensor).sum().item<int64_t>() : 0;
    if (count == 0) continue;
    if (found.empty()) {
      found = with_commas(count) + (count == 1 ? " number" : " numbers") + " in \"" + name + "\"" +
              (count == 1 ? " that is" : " that are") + " NaN or infinite";
    } else {
      ++more;
    }
  }
  return found + (more == 0 ? ""
                            : ", and such in " + std::to_string(more) +
                                  (more == 1 ? " more tensor" : " more tensors"));
}

std::string builtin_network_of(const NamedTensors& tensors) {
  std::string best;
  size_t most = tensors.size() / 4;  // running statistics, up to half of a file, are not compared
  for (const std::string& name : builtin_network_names()) {
    const size_t fitting = fitting_tensors(find_network(name), tensors);
    if (fitting <= most) continue;
    best = name;
    most = fitting;
  }
  return best;
}

std::string where_weights_are(const std::string& network) {
  if (!has_trained_weights(network)) return "";
  return "--pretrained " + network + " takes those that PyTorch publishes, trained on ImageNet";
}

}  // namespace lockstep::nn
