#include "lockstep/nn/state.h"

#include <algorithm>
#include <unordered_map>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/layer.h"

namespace lockstep::nn {
namespace {

constexpr size_t kMostNamesListed = 5;

void collect(const torch::nn::Module& module, const std::string& prefix, NamedTensors& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    if (item.value().defined()) state.emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    if (item.value().defined()) state.emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& child : module.named_children()) collect(*child.value(), prefix + child.key() + ".", state);
}

bool may_be_missing(const std::string& name) { return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked"); }

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMostNamesListed); ++i) shown.push_back(in_quotes(names[i]));
  return join(shown, ", ") + (names.size() > shown.size() ? " and " + std::to_string(names.size() - shown.size()) + " more" : "");
}

/// What of a file goes where, and what is wrong with it.
struct Match {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  ///< to, from; an undefined `from` stands for 0
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misfits;
};

Match match(const NamedTensors& state, const SafetensorsFile& file) {
  std::unordered_map<std::string, at::Tensor> available(file.tensors.begin(), file.tensors.end());
  Match result;
  for (const auto& [name, to] : state) {
    const auto found = available.find(name);
    if (found == available.end()) {
      if (may_be_missing(name)) result.copies.emplace_back(to, at::Tensor());
      else result.missing.push_back(name);
      continue;
    }
    const at::Tensor& from = found->second;
    if (from.sizes() != to.sizes()) {
      result.misfits.push_back(in_quotes(name) + " is " + shape_text(from.sizes().vec()) + " and should be " + shape_text(to.sizes().vec()));
    } else if (from.is_floating_point() && !to.is_floating_point()) {
      result.misfits.push_back(in_quotes(name) + " holds floating-point numbers and should hold whole ones");
    }
    result.copies.emplace_back(to, from);
    available.erase(found);
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (available.contains(name)) result.unexpected.push_back(name);
  }
  return result;
}

std::string hint_of(const Match& match) {
  if (match.missing.empty() || match.unexpected.empty()) {
    return match.misfits.empty() ? "the file is of another network" : "the file is of a network with other sizes or classes";
  }
  const std::string found = nearest(match.missing.front(), match.unexpected);
  if (found.empty()) return "the file is of another network";
  return "is " + in_quotes(found) + " in the file what the network calls " + in_quotes(match.missing.front()) + "?";
}

void check(const Match& match, const std::string& source) {
  std::vector<std::string> problems;
  if (!match.missing.empty()) problems.push_back("missing " + listed(match.missing));
  if (!match.unexpected.empty()) problems.push_back("unexpected " + listed(match.unexpected));
  if (!match.misfits.empty()) {
    problems.push_back(match.misfits.front() + (match.misfits.size() > 1 ? " and " +
        std::to_string(match.misfits.size() - 1) + " more like it" : ""));
  }
  if (!problems.empty()) throw Error(ErrorCode::corrupt_data, "the weights in \"" + source + "\" are not of this network: " + join(problems, "; "), hint_of(match));
}

}  // namespace

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  collect(module, "", state);
  return state;
}

void load_state(torch::nn::Module& module, const SafetensorsFile& file, const std::string& source) {
  const Match found = match(state_of(module), file);
  check(found, source);
  for (const auto& [to, from] : found.copies) {
    if (from.defined()) {
      to.copy_(from);
    } else {
      to.zero_();
    }
  }
}

void convert_floating(torch::nn::Module& module, at::ScalarType type) {
  const auto convert = [type](at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_floating_point()) tensor.set_data(tensor.to(type));
  };
  for (auto& item : module.named_parameters()) convert(item.value());
  for (auto& item : module.named_buffers()) convert(item.value());
}

}  // namespace lockstep::nn
