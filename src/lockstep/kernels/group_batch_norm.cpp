#include "lockstep/kernels/group_batch_norm.h"

#include <array>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::array<int64_t, 2> kAllButChannels{0, 2};

// Of each shard, double [b,C,values].
std::vector<at::Tensor> shards_of(const at::Tensor& batch) {
  const int64_t shards = ShardsTogether::count(), samples = batch.size(0) / shards;
  std::vector<at::Tensor> all;
  for (int64_t shard = 0; shard < shards; ++shard)
    all.push_back(batch.narrow(0, shard * samples, samples)
                      .to(at::kDouble)
                      .contiguous()
                      .reshape({samples, batch.size(1), -1}));
  return all;
}

// The number of values in a channel, and what is known of each channel.
NormSums sums_of(const at::Tensor& shard, const at::Tensor& first, const at::Tensor& second) {
  NormSums sums{static_cast<double>(shard.size(0) * shard.size(2))};
  for (const at::Tensor& part : {first, second}) {
    const at::Tensor values = part.contiguous();
    sums.insert(sums.end(), values.const_data_ptr<double>(),
                values.const_data_ptr<double>() + values.numel());
  }
  return sums;
}

// Double [1,C,1]: the values of a channel that begin at sums[begin].
at::Tensor channels_of(const NormSums& sums, size_t begin) {
  const auto channels = static_cast<int64_t>(sums.size() / 2);
  return at::tensor(at::ArrayRef<double>(sums.data() + begin, static_cast<size_t>(channels)), at::kDouble)
      .reshape({1, channels, 1});
}

template <class OfShard>
NormSums fold(Range group, NormExchange::Add add, const OfShard& of_shard) {
  NormSums sums = fold_tree(group.begin, group.end, of_shard, add);
  NormExchange* others = ShardsTogether::groups().others;
  return others == nullptr ? sums : others->fold(std::move(sums), add);
}

void move_statistics(const BatchNormState& state, const NormSums& sums) {
  if (!state.running_mean.defined() || !state.running_variance.defined()) return;
  const size_t channels = sums.size() / 2;
  const auto move = [&](at::Tensor running, const at::Tensor& statistic) {
    running.mul_(1 - state.momentum).add_(statistic.reshape(-1).to(running.scalar_type()), state.momentum);
  };
  move(state.running_mean, channels_of(sums, 1));
  move(state.running_variance, channels_of(sums, 1 + channels) / (sums[0] - 1));
  ShardsTogether::keep_statistics(state.running_mean, state.running_variance);
}

at::Tensor as_part_of(const at::Tensor& shard, const at::Tensor& batch) {
  std::vector<int64_t> sizes = batch.sizes().vec();
  sizes.front() = shard.size(0);
  return shard.reshape(sizes).to(batch.scalar_type());
}

class GroupBatchNorm : public torch::autograd::Function<GroupBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                            const BatchNormState* state) {
    const std::vector<at::Tensor> shards = shards_of(input);
    variable_list saved{input, weight.value_or(at::Tensor()), bias.value_or(at::Tensor())};
    std::vector<at::Tensor> outputs;
    for (const Range group : ShardsTogether::groups().shards) {
      const NormSums all = fold(group, &add_moments, [&](int64_t index) {
        const at::Tensor& shard = shards[static_cast<size_t>(index)];
        const at::Tensor mean = shard.mean(at::IntArrayRef(kAllButChannels), /*keepdim=*/true);
        NormSums sums = sums_of(shard, mean, (shard - mean).square().sum(at::IntArrayRef(kAllButChannels)));
        move_statistics(*state, sums);
        return sums;
      });
      const size_t channels = all.size() / 2;
      const at::Tensor mean = channels_of(all, 1);
      const at::Tensor inverse = (channels_of(all, 1 + channels) / all[0] + state->epsilon).rsqrt();
      for (int64_t index = group.begin; index < group.end; ++index) {
        at::Tensor output = (shards[static_cast<size_t>(index)] - mean) * inverse;
        if (weight) output = output * weight->to(at::kDouble).reshape({1, -1, 1});
        if (bias) output = output + bias->to(at::kDouble).reshape({1, -1, 1});
        outputs.push_back(as_part_of(output, input));
      }
      saved.push_back(mean);
      saved.push_back(inverse);
    }
    context->save_for_backward(saved);
    return at::cat(outputs);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &bias = saved[2];
    const std::vector<at::Tensor> inputs = shards_of(input), outputs = shards_of(gradients[0]);
    const at::Tensor factor = weight.defined() ? weight.to(at::kDouble).reshape({1, -1, 1}) : at::Tensor();
    std::vector<at::Tensor> input_gradients;
    std::vector<ParameterGradients> of_shards(inputs.size());
    size_t next = 3;
    for (const Range group : ShardsTogether::groups().shards) {
      const at::Tensor &mean = saved[next], &inverse = saved[next + 1];
      next += 2;
      const NormSums all = fold(group, &add_sums, [&](int64_t index) {
        const auto i = static_cast<size_t>(index);
        const at::Tensor sum = outputs[i].sum(at::IntArrayRef(kAllButChannels)),
                         products = (outputs[i] * (inputs[i] - mean)).sum(at::IntArrayRef(kAllButChannels));
        if (weight.defined()) of_shards[i].weight = (products * inverse.reshape(-1)).to(weight.scalar_type());
        if (bias.defined()) of_shards[i].bias = sum.to(bias.scalar_type());
        return sums_of(inputs[i], sum, products);
      });
      const size_t channels = all.size() / 2;
      const at::Tensor offset = channels_of(all, 1) / all[0];
      const at::Tensor slope = channels_of(all, 1 + channels) / all[0] * inverse.square();
      for (int64_t index = group.begin; index < group.end; ++index) {
        const auto i = static_cast<size_t>(index);
        at::Tensor gradient = (outputs[i] - offset - (inputs[i] - mean) * slope) * inverse;
        if (factor.defined()) gradient = gradient * factor;
        input_gradients.push_back(as_part_of(gradient, input));
      }
    }
    const ParameterGradients sum = tree_sum(
        0, ShardsTogether::count(), [&](int64_t shard) { return of_shards[static_cast<size_t>(shard)]; });
    return {at::cat(input_gradients), sum.weight, sum.bias, at::Tensor()};
  }
};

}  // namespace

std::optional<at::Tensor> group_batch_norm(const at::Tensor& input, const BatchNormState& state) {
  const NormGroups& groups = ShardsTogether::groups();
  if (!state.training || !groups.reach_beyond_shards() || !input.is_cpu() || input.dim() < 2 ||
      input.size(0) < 2 * ShardsTogether::count() || input.size(0) % ShardsTogether::count() != 0)
    return std::nullopt;
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return GroupBatchNorm::apply(input, given(state.weight), given(state.bias), &state);
}

}  // namespace lockstep::kernels
