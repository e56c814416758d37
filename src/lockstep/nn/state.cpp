#include "lockstep/nn/state.h"

#include <algorithm>
#include <unordered_map>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/internal/quotes.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/weights_file.h"

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
  for (const auto& child : module.named_children())
    collect(*child.value(), prefix + child.key() + ".", state);
}

bool may_be_missing(const std::string& name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMostNamesListed); ++i) shown.push_back(in_quotes(names[i]));
  return join(shown, ", ") +
         (names.size() > shown.size() ? " and " + std::to_string(names.size() - shown.size()) + " more" : "");
}

/// Which tensor is copied where, and what does not fit.
struct Match {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  ///< to, from; an undefined `from` means 0
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
      if (may_be_missing(name))
        result.copies.emplace_back(to, at::Tensor());
      else
        result.missing.push_back(name);
      continue;
    }
    const at::Tensor& from = found->second;
    if (from.sizes() != to.sizes()) {
      result.misfits.push_back(in_quotes(name) + " is " + shape_text(from.sizes().vec()) + " instead of " +
                               shape_text(to.sizes().vec()));
    } else if (from.is_floating_point() && !to.is_floating_point()) {
      result.misfits.push_back(in_quotes(name) + " contains floating-point numbers instead of integers");
    }
    result.copies.emplace_back(to, from);
    available.erase(found);
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (available.contains(name)) result.unexpected.push_back(name);
  }
  return result;
}

// Fewer matches can be explained by another number of classes.
constexpr size_t kMisfitsOfOneNetwork = 2;

std::string hint_of(const Match& match, const NamedTensors& tensors) {
  const bool other =
      !match.missing.empty() || !match.unexpected.empty() || match.misfits.size() > kMisfitsOfOneNetwork;
  const std::string builtin = other ? builtin_network_of(tensors) : "";
  if (!builtin.empty())
    return "the file belongs to the built-in network " + builtin + " (lockstep train --network " + builtin +
           ")";
  if (match.missing.empty() || match.unexpected.empty()) {
    return match.misfits.empty()
               ? "the file belongs to another network"
               : "the file belongs to a network with other sizes or classes; lockstep train "
                 "--head new loads all layers except the last one";
  }
  const std::string found = nearest(match.missing.front(), match.unexpected);
  if (found.empty()) return "the file belongs to another network";
  return "the file has " + in_quotes(found) + " where the network has " + in_quotes(match.missing.front()) +
         "?";
}

void check(const Match& match, const SafetensorsFile& file, const std::string& source) {
  std::vector<std::string> problems;
  if (!match.missing.empty()) problems.push_back("missing " + listed(match.missing));
  if (!match.unexpected.empty()) problems.push_back("unexpected " + listed(match.unexpected));
  if (!match.misfits.empty()) {
    problems.push_back(match.misfits.front() +
                       (match.misfits.size() > 1
                            ? " and " + std::to_string(match.misfits.size() - 1) + " more such differences"
                            : ""));
  }
  if (!problems.empty())
    throw Error(ErrorCode::corrupt_data,
                "the weights in \"" + source + "\" do not fit this network: " + join(problems, "; "),
                hint_of(match, file.tensors));
}

// The tensors of a module and its children, and their number.
size_t leave_out(NamedTensors& tensors, const std::string& module) {
  return std::erase_if(tensors, [&](const auto& item) {
    return item.first == module || item.first.starts_with(module + ".");
  });
}

std::string hint_for_layer(const NamedTensors& state, const std::string& module) {
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : state) {
    const size_t dot = name.rfind('.');
    if (dot != std::string::npos) modules.push_back(name.substr(0, dot));
  }
  const std::string found = nearest(module, modules);
  return found.empty() ? "lockstep network show lists a network's layers"
                       : "did you mean " + in_quotes(found) + "?";
}

}  // namespace

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  collect(module, "", state);
  return state;
}

void load_state(torch::nn::Module& module, const SafetensorsFile& file, const std::string& source,
                const LoadOptions& options) {
  NamedTensors state = state_of(module);
  SafetensorsFile chosen = file;
  for (const std::string& name : options.fresh) {
    if (leave_out(state, name) == 0)
      throw Error(ErrorCode::invalid_option,
                  "the network has no layer " + in_quotes(name) + " that could be initialized again",
                  hint_for_layer(state, name));
    leave_out(chosen.tensors, name);
  }
  for (const std::string& name : options.dropped) leave_out(chosen.tensors, name);
  const Match found = match(state, chosen);
  check(found, file, source);
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
