// The operators of a user's module that compute each sample of a batch by itself.
#pragma once

#include <string_view>

namespace lockstep::nn {

/// What an operator takes, besides numbers, and gives. A batch is a tensor [b,...] whose rows are samples.
enum class OperatorRule {
  layer,        ///< one batch, and weights of its own: a layer whose kernels add weight gradients in the tree
  transpose,    ///< a weight
  one_batch,    ///< one batch
  equal_pair,   ///< two batches of the same shape
  concatenate,  ///< batches, not along the samples
  mean          ///< one batch [b,C,H,W], over places
};

struct SampleOperator {
  std::string_view name;  ///< with its overload, as in LibTorch's schemas
  OperatorRule rule;
  size_t batch = 0;  ///< of a layer: the argument that is the batch
};

/// Null for an operator that is not known. The known ones give a batch, except `transpose`. Their results for
/// a sample have the same bits in any batch: they are Lockstep's kernels, or exact for each number, or called
/// for each shard (kernels/direct_kernels.h).
const SampleOperator* find_sample_operator(std::string_view name);

/// Whether a node of the autograd graph, by its name, computes the gradient of each sample by itself and the
/// gradients of weights in the tree.
bool is_sample_gradient(std::string_view node);

}  // namespace lockstep::nn
