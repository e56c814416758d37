#include "lockstep/cli/weights_difference.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include <ATen/ATen.h>

#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/tensor_bytes.h"

namespace lockstep::cli {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::vector<std::string> sides;
  for (const int64_t side : tensor.sizes()) sides.push_back(std::to_string(side));
  return std::string(at::toString(tensor.scalar_type())) + " [" + join(sides, ",") + "]";
}

// Compares bits, not values: +0 and -0 differ, two NaNs with the same bits do not.
int64_t count_different(const at::Tensor& a, const at::Tensor& b) {
  const std::string_view bytes_a = nn::bytes_of(a);
  const std::string_view bytes_b = nn::bytes_of(b);
  const size_t size = a.element_size();
  int64_t count = 0;
  for (size_t at = 0; at < bytes_a.size(); at += size)
    count += std::memcmp(&bytes_a[at], &bytes_b[at], size) == 0 ? 0 : 1;
  return count;
}

TensorDifference compare(const std::string& name, const at::Tensor& first, const at::Tensor& second) {
  TensorDifference result;
  result.name = name;
  result.elements = first.numel();
  if (shape_text(first) != shape_text(second)) {
    result.note = shape_text(first) + " and " + shape_text(second);
    return result;
  }
  const at::Tensor a = first.contiguous();
  const at::Tensor b = second.contiguous();
  result.different = count_different(a, b);
  if (result.different > 0)
    result.largest = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return result;
}

}  // namespace

std::vector<TensorDifference> different_tensors(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  std::map<std::string, at::Tensor> rest(b.begin(), b.end());
  std::vector<TensorDifference> differences;
  for (const auto& [name, tensor] : a) {
    const auto other = rest.find(name);
    if (other == rest.end()) {
      differences.push_back({name, "only in the first one"});
      continue;
    }
    TensorDifference difference = compare(name, tensor, other->second);
    if (difference.different > 0 || !difference.note.empty()) differences.push_back(std::move(difference));
    rest.erase(other);
  }
  for (const auto& entry : b) {
    if (rest.contains(entry.first)) differences.push_back({entry.first, "only in the second one"});
  }
  return differences;
}

bool are_equal_without_names(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    const TensorDifference difference = compare(one.first, one.second, other.second);
    return difference.different == 0 && difference.note.empty();
  });
}

uint64_t weights_hash(const nn::NamedTensors& weights) {
  uint64_t hash = 0;
  for (const auto& [name, tensor] : weights) {
    hash = hash_of(name + " " + shape_text(tensor), hash);
    hash = hash_of(nn::bytes_of(tensor.contiguous()), hash);
  }
  return hash;
}

}  // namespace lockstep::cli
