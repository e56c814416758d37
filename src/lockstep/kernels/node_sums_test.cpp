// The gradient by the weight of a node of the tree has the bits of one shard after the other, added in the
// tree.
#include <gtest/gtest.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/internal/test_convolutions.h"

namespace lockstep::kernels {
namespace {

using namespace test;

struct NodeGradients {
  std::vector<float> weight, bias;

  template <class T>
  NodeGradients(const ConvolutionKernels<T>& kernels, const ConvolutionShape& shape, const T* gradient,
                const T* input)
      : weight(static_cast<size_t>(weight_size(shape))), bias(static_cast<size_t>(shape.filters)) {
    kernels.weight_gradient(shape, gradient, input, weight.data(), bias.data());
  }
  NodeGradients& operator+=(const NodeGradients& other) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] += other.weight[i];
    for (size_t i = 0; i < bias.size(); ++i) bias[i] += other.bias[i];
    return *this;
  }
};

template <class T>
void expect_sums_of_shards(ConvolutionShape one) {
  for (const int64_t shards : {2, 3, 5, 8}) {
    ConvolutionShape all = one;
    all.batch *= shards;
    all.shards = shards;
    const Case<T> c(all);
    for (const auto& [name, kernels] : present_kernels<T>()) {
      const NodeGradients node(*kernels, all, c.gradient.data(), c.input.data());
      const NodeGradients expected = tree_sum(0, shards, [&](int64_t shard) {
        return NodeGradients(*kernels, one, c.gradient.data() + shard * output_size(one),
                             c.input.data() + shard * input_size(one));
      });
      EXPECT_EQ(node.weight, expected.weight) << name << ": " << shards << " shards of " << text(one);
      EXPECT_EQ(node.bias, expected.bias) << name << ": " << shards << " shards of " << text(one);
    }
  }
}

template <class T>
void expect_sums_of_shards() {
  expect_sums_of_shards<T>({2, 3, 9, 10, 20, 3, 3, 1, 1, false});        // direct
  expect_sums_of_shards<T>({3, 20, 12, 12, 20, 3, 3, 1, 1, false});      // Winograd, few weights
  expect_sums_of_shards<T>({2, 65, 6, 7, 70, 3, 3, 1, 1, true});         // Winograd, many weights
  expect_sums_of_shards<T>({4, 96, 4, 4, 132, 3, 3, 1, 1, false});       // one tile of an image
  expect_sums_of_shards<T>({2, 40, 9, 9, 67, 5, 5, 2, 2, false});        // Winograd, kernels of 5 x 5
  expect_sums_of_shards<T>({4, 33, 2, 2, 50, 3, 3, 1, 1, true});         // places
  expect_sums_of_shards<T>({3, 17, 3, 3, 24, 3, 3, 1, 1, false});        // and of a shard an odd number
  expect_sums_of_shards<T>({2, 24, 7, 7, 40, 3, 3, 1, 1, false, 2, 2});  // strided
  expect_sums_of_shards<T>({4, 200, 2, 2, 300, 1, 1, 0, 0, false});      // 1 x 1, many weights
  expect_sums_of_shards<T>({3, 300, 1, 2, 190, 1, 1, 0, 0, true});       // and more channels than filters
  expect_sums_of_shards<T>({2, 48, 14, 13, 20, 1, 1, 0, 0, false});      // 1 x 1, many places
  expect_sums_of_shards<T>({1, 20, 27, 21, 70, 1, 1, 0, 0, false});      // and more filters than channels
  expect_sums_of_shards<T>({3, 40, 9, 5, 33, 1, 1, 0, 0, false, 2, 2});  // 1 x 1, strided
}

TEST(NodeSums, AreThoseOfOneShardAfterTheOther) {
  expect_sums_of_shards<float>();
  expect_sums_of_shards<float>({2, 40, 9, 8, 40, 3, 3, 1, 1, false, 2, 2, 1, true});  // depthwise
}

TEST(NodeSums, AreThoseOfOneShardAfterTheOtherInHalfPrecision) { expect_sums_of_shards<BFloat16>(); }

}  // namespace
}  // namespace lockstep::kernels
