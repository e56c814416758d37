#include "lockstep/kernels/fused_batch_norm.h"

#include <cmath>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/modules/batchnorm.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/channel_kernels.h"
#include "lockstep/kernels/fused_relu.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/shard_rows.h"
#include "lockstep/kernels/internal/typed.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_float_of(const at::Tensor& tensor, int64_t channels) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous() &&
         tensor.numel() == channels;
}

bool is_fusible(const at::Tensor& input, const BatchNormState& state) {
  return DirectKernels::enabled() && state.training == at::GradMode::is_enabled() && input.dim() == 4 &&
         input.is_cpu() && input.numel() > 0 &&
         (!state.training || ShardsTogether::samples_of_each(input.numel()) > input.size(1)) &&
         (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16) &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) && is_float_of(state.weight, input.size(1)) &&
         is_float_of(state.bias, input.size(1)) && is_float_of(state.running_mean, input.size(1)) &&
         is_float_of(state.running_variance, input.size(1));
}

/// The values by which a group of shards is normalised, float [channels] each, one after the other in a row
/// of saved numbers.
struct Normalization {
  static constexpr int64_t kRows = 4;

  float* scale;
  float* shift;
  float* mean;
  float* inverse;  ///< 1 / deviation

  Normalization(float* row, int64_t channels)
      : scale(row), shift(scale + channels), mean(shift + channels), inverse(mean + channels) {}
};

class FusedBatchNorm : public torch::autograd::Function<FusedBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const BatchNormState* state, bool relu) {
    const Parts parts(input);
    const int64_t channels = parts.channels;
    const at::Tensor saved = at::empty(
        {static_cast<int64_t>(parts.groups.shards.size()), Normalization::kRows, channels}, at::kFloat);
    const at::Tensor output = at::empty_like(input);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      for (size_t group = 0; group < parts.groups.shards.size(); ++group) {
        const Range shards = parts.groups.shards[group];
        const Normalization values = parts.normalization(saved, group);
        parts.is_one_shard(shards) ? normalize_shard<T>(*state, input, parts, shards.begin, values)
                                   : normalize_group<T>(*state, input, parts, shards, values);
        for (int64_t c = 0; c < channels; ++c) {
          values.scale[c] = data<float>(weight)[c] * values.inverse[c];
          values.shift[c] = data<float>(bias)[c] - values.mean[c] * values.scale[c];
        }
        kernels::channel_kernels<T>().transform(parts.of<T>(input, shards.begin), parts.rows * shards.count(),
                                                channels, values.scale, values.shift, relu,
                                                parts.of<T>(output, shards.begin));
      }
    });
    context->set_materialize_grads(false);
    context->save_for_backward({input, saved});
    context->saved_data["weight"] = weight;
    context->saved_data["bias"] = bias;
    context->saved_data["relu"] = relu;
    context->saved_data["ran"] = false;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_derivative();
    context->saved_data["ran"] = true;
    if (!gradients[0].defined()) return variable_list(kInputs);
    const auto saved = context->get_saved_variables();
    const Gradients all =
        gradients_of(gradients[0], saved[0], saved[1], context->saved_data["relu"].toBool());
    return {all.input, all.parameters.weight, all.parameters.bias, at::Tensor(), at::Tensor()};
  }

  struct Gradients {
    at::Tensor input;
    ParameterGradients parameters;
  };

  /// The gradient of forward without a ReLU. `saved`: the values that forward has saved.
  static at::Tensor output_of(const at::Tensor& input, const at::Tensor& saved) {
    const Parts parts(input);
    const at::Tensor output = at::empty_like(input);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      for (size_t group = 0; group < parts.groups.shards.size(); ++group) {
        const Range shards = parts.groups.shards[group];
        const Normalization values = parts.normalization(saved, group);
        kernels::channel_kernels<T>().transform(parts.of<T>(input, shards.begin), parts.rows * shards.count(),
                                                parts.channels, values.scale, values.shift, /*relu=*/false,
                                                parts.of<T>(output, shards.begin));
      }
    });
    return output;
  }

  /// The gradient of forward with or without a ReLU.
  static Gradients gradients_of(const at::Tensor& given, const at::Tensor& input, const at::Tensor& saved,
                                bool relu) {
    const Parts parts(input);
    const at::Tensor gradient = given.to(input.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor input_gradient = memory_of_result(given, gradient);
    ShardRows weight(parts.shards, parts.channels), bias(parts.shards, parts.channels);
    visit_type(input.scalar_type(), [&](auto type) {
      using T = decltype(type);
      for (size_t group = 0; group < parts.groups.shards.size(); ++group)
        group_gradients<T>({gradient, input, input_gradient, relu, weight, bias}, parts,
                           parts.groups.shards[group], parts.normalization(saved, group));
    });
    return {input_gradient, {weight.sum(), bias.sum()}};
  }

 private:
  static constexpr size_t kInputs = 5;

  // The shards of a batch, and the groups that are normalised together.
  struct Parts {
    int64_t shards = ShardsTogether::count();
    const NormGroups& groups = ShardsTogether::groups();
    int64_t channels;
    int64_t rows;  // of each shard

    explicit Parts(const at::Tensor& batch)
        : channels(batch.size(1)), rows(batch.numel() / channels / shards) {}

    template <class T>
    T* of(const at::Tensor& batch, int64_t shard) const {
      return data<T>(batch) + shard * rows * channels;
    }
    Normalization normalization(const at::Tensor& saved, size_t group) const {
      return {data<float>(saved) + static_cast<int64_t>(group) * Normalization::kRows * channels, channels};
    }
    bool is_one_shard(Range group) const { return groups.others == nullptr && group.count() == 1; }
    // The sums over a group, from those over each of its shards that are in the batch.
    template <class OfShard>
    NormSums fold(Range group, NormExchange::Add add, const OfShard& of_shard) const {
      NormSums sums = fold_tree(group.begin, group.end, of_shard, add);
      return groups.others == nullptr ? sums : groups.others->fold(std::move(sums), add);
    }
  };

  template <class T>
  static void normalize_shard(const BatchNormState& state, const at::Tensor& input, const Parts& parts,
                              int64_t shard, const Normalization& values) {
    std::vector<float> deviation(static_cast<size_t>(parts.channels));
    kernels::channel_kernels<T>().moments(parts.of<T>(input, shard), parts.rows, parts.channels, values.mean,
                                          deviation.data());
    for (size_t c = 0; c < deviation.size(); ++c)
      values.inverse[c] =
          1.0F / std::sqrt(deviation[c] / static_cast<float>(parts.rows) + static_cast<float>(state.epsilon));
    move_statistics(state, values.mean, deviation, parts.rows);
    ShardsTogether::keep_statistics(state.running_mean, state.running_variance);
  }

  template <class T>
  static void normalize_group(const BatchNormState& state, const at::Tensor& input, const Parts& parts,
                              Range group, const Normalization& values) {
    const auto channels = static_cast<size_t>(parts.channels);
    std::vector<float> mean(channels), deviation(channels);
    const NormSums all = parts.fold(group, &add_moments, [&](int64_t shard) {
      kernels::channel_kernels<T>().moments(parts.of<T>(input, shard), parts.rows, parts.channels,
                                            mean.data(), deviation.data());
      move_statistics(state, mean.data(), deviation, parts.rows);
      ShardsTogether::keep_statistics(state.running_mean, state.running_variance);
      return norm_sums(parts.rows, mean.data(), deviation.data(), parts.channels);
    });
    for (size_t c = 0; c < channels; ++c) {
      values.mean[c] = static_cast<float>(all[1 + c]);
      values.inverse[c] = static_cast<float>(1 / std::sqrt(all[1 + channels + c] / all[0] + state.epsilon));
    }
  }

  // What backward reads and writes, of all shards of the batch.
  struct Batch {
    const at::Tensor& gradient;
    const at::Tensor& input;
    const at::Tensor& input_gradient;
    bool relu;
    ShardRows& weight;
    ShardRows& bias;
  };

  template <class T>
  static void group_gradients(const Batch& batch, const Parts& parts, Range group,
                              const Normalization& values) {
    const auto& kernels = kernels::channel_kernels<T>();
    const auto& [scale, shift, mean, inverse] = values;
    const auto channels = static_cast<size_t>(parts.channels);
    std::vector<float> products(channels), slope(channels), offset(channels);
    const auto sums_of_shard = [&](int64_t shard) {
      float* shifts = batch.bias.of(shard);
      kernels.gradient_sums(parts.of<T>(batch.gradient, shard), parts.of<T>(batch.input, shard), parts.rows,
                            parts.channels, scale, shift, mean, batch.relu, shifts, products.data());
      for (size_t c = 0; c < channels; ++c) batch.weight.of(shard)[c] = products[c] * inverse[c];
      return shifts;
    };
    if (parts.is_one_shard(group)) {
      const float* shifts = sums_of_shard(group.begin);
      const auto count = static_cast<float>(parts.rows);
      for (size_t c = 0; c < channels; ++c) {
        slope[c] = -scale[c] * inverse[c] * inverse[c] * products[c] / count;
        offset[c] = -scale[c] * shifts[c] / count;
      }
    } else {
      const NormSums all = parts.fold(group, &add_sums, [&](int64_t shard) {
        const float* shifts = sums_of_shard(shard);
        return norm_sums(parts.rows, shifts, products.data(), parts.channels);
      });
      for (size_t c = 0; c < channels; ++c) {
        const double own_scale = scale[c], own_inverse = inverse[c];
        offset[c] = static_cast<float>(-own_scale * all[1 + c] / all[0]);
        slope[c] =
            static_cast<float>(-own_scale * own_inverse * own_inverse * all[1 + channels + c] / all[0]);
      }
    }
    kernels.input_gradient(parts.of<T>(batch.gradient, group.begin), parts.of<T>(batch.input, group.begin),
                           parts.rows * group.count(), parts.channels, scale, shift, mean, slope.data(),
                           offset.data(), batch.relu, parts.of<T>(batch.input_gradient, group.begin));
  }

  static void move_statistics(const BatchNormState& state, const float* mean,
                              const std::vector<float>& deviation, int64_t rows) {
    const auto keep = static_cast<float>(1 - state.momentum);
    const auto take = static_cast<float>(state.momentum);
    float* running_mean = data<float>(state.running_mean);
    float* running_variance = data<float>(state.running_variance);
    for (size_t c = 0; c < deviation.size(); ++c) {
      running_mean[c] = keep * running_mean[c] + take * mean[c];
      running_variance[c] = keep * running_variance[c] + take * (deviation[c] / static_cast<float>(rows - 1));
    }
  }
};

// Whether the gradient of this batch norm's output is needed, by a hook or by torch::autograd::grad.
bool is_asked_for(torch::autograd::Node& norm) {
  if (!norm.tensor_pre_hooks().empty() || !norm.retains_grad_hooks().empty() || !norm.pre_hooks().empty() ||
      !norm.post_hooks().empty())
    return true;
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  if (wanted == nullptr) return false;
  const auto info = wanted->find(&norm);
  return info != wanted->end() && info->second.captures_ != nullptr;
}

/// A function of the batch norm's inputs, so that its backward is that of both layers. Other users of the
/// batch norm's output still go through the batch norm's own backward. If the gradient of that output is
/// needed, this function does so too.
class ReluOfBatchNorm : public torch::autograd::Function<ReluOfBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& /*weight*/,
                            const at::Tensor& /*bias*/, const at::Tensor& normalized, const at::Tensor& saved,
                            bool in_place) {
    context->set_materialize_grads(false);
    context->save_for_backward({input, saved});
    if (in_place) context->mark_dirty({normalized});
    return relu_into(normalized, in_place ? normalized : at::empty_like(normalized));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_derivative();
    const auto saved = context->get_saved_variables();
    variable_list results(kInputs);
    if (!gradients[0].defined()) return results;
    if (is_asked_for(*torch::autograd::get_current_node()->next_edge(kNormalized).function)) {
      results[kNormalized] =
          at::threshold_backward(gradients[0], FusedBatchNorm::output_of(saved[0], saved[1]), 0);
      return results;
    }
    const auto all = FusedBatchNorm::gradients_of(gradients[0], saved[0], saved[1], /*relu=*/true);
    results[0] = all.input;
    results[1] = all.parameters.weight;
    results[2] = all.parameters.bias;
    return results;
  }

 private:
  static constexpr size_t kInputs = 6;
  static constexpr size_t kNormalized = 3;
};

/// With the running statistics, without gradients.
at::Tensor inference(const BatchNormState& state, const at::Tensor& input, bool relu) {
  const int64_t channels = input.size(1);
  std::vector<float> scale(static_cast<size_t>(channels)), shift(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<size_t>(c);
    scale[i] = data<float>(state.weight)[c] /
               std::sqrt(data<float>(state.running_variance)[c] + static_cast<float>(state.epsilon));
    shift[i] = data<float>(state.bias)[c] - data<float>(state.running_mean)[c] * scale[i];
  }
  const at::Tensor output = at::empty_like(input);
  visit_type(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    kernels::channel_kernels<T>().transform(data<T>(input), input.numel() / channels, channels, scale.data(),
                                            shift.data(), relu, data<T>(output));
  });
  return output;
}

// The same as in the module's forward.
double next_momentum(torch::nn::BatchNorm2dImpl& module) {
  if (module.is_training()) module.num_batches_tracked.add_(1);
  return module.options.momentum().value_or(1.0 /
                                            static_cast<double>(module.num_batches_tracked.item<int64_t>()));
}

at::Tensor normalized(const at::Tensor& input, const BatchNormState& state, bool relu) {
  return state.training ? FusedBatchNorm::apply(input, state.weight, state.bias, &state, relu)
                        : inference(state, input, relu);
}

}  // namespace

std::optional<at::Tensor> fused_batch_norm(const at::Tensor& input, const BatchNormState& state, bool relu) {
  return is_fusible(input, state) ? std::optional(normalized(input, state, relu)) : std::nullopt;
}

std::optional<at::Tensor> relu_of_batch_norm(const at::Tensor& output, bool in_place) {
  if (!at::GradMode::is_enabled()) return std::nullopt;
  const auto function = output.grad_fn();  // which kind of pointer depends on LibTorch's version
  auto* const node = dynamic_cast<torch::autograd::CppNode<FusedBatchNorm>*>(function.get());
  // After the batch norm's backward its saved values may be gone. An output that was changed in place
  // (without gradients, otherwise it has another grad_fn) is not the batch norm's output any more.
  if (node == nullptr || node->ctx_.saved_data.at("relu").toBool() ||
      node->ctx_.saved_data.at("ran").toBool() || output._version() != 0)
    return std::nullopt;
  const auto saved = node->ctx_.get_saved_variables();
  return ReluOfBatchNorm::apply(saved[0], node->ctx_.saved_data.at("weight").toTensor(),
                                node->ctx_.saved_data.at("bias").toTensor(), output, saved[1], in_place);
}

at::Tensor batch_norm(torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu) {
  BatchNormState state{module.weight,        module.bias,         module.running_mean, module.running_var, 0,
                       module.options.eps(), module.is_training()};
  if (is_fusible(input, state)) {
    state.momentum = next_momentum(module);
    return normalized(input, state, relu);
  }
  if (!ShardsTogether::groups().reach_beyond_shards()) ShardsTogether::mix();
  at::Tensor output = module.forward(input);
  return relu ? output.relu_() : output;
}

}  // namespace lockstep::kernels
