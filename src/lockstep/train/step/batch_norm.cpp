#include "lockstep/train/step/batch_norm.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <torch/nn/modules/batchnorm.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/freeze.h"

namespace lockstep::train {
namespace {

// BatchNorm1d, 2d and 3d have the same options and buffers, but no public base that is not a template.
template <class F>
bool visit_batch_norm(torch::nn::Module& module, F&& visit) {
  const auto try_as = [&]<class M>(M* candidate) {
    if (candidate == nullptr) return false;
    if (candidate->options.track_running_stats()) visit(*candidate);
    return true;
  };
  return try_as(dynamic_cast<torch::nn::BatchNorm2dImpl*>(&module)) ||
         try_as(dynamic_cast<torch::nn::BatchNorm1dImpl*>(&module)) ||
         try_as(dynamic_cast<torch::nn::BatchNorm3dImpl*>(&module));
}

template <class F>
void for_each_batch_norm(const nn::Instance& instance, F&& visit) {
  for (const auto& item : instance.module->named_modules("", true)) {
    if (std::find(instance.held.begin(), instance.held.end(), item.value()) != instance.held.end()) continue;
    visit_batch_norm(*item.value(), [&](auto& norm) { visit(item.key(), norm); });
  }
}

// If set: receives, for each running-mean buffer with which a batch norm is called, the number of values of
// each channel. Thread-local because a callback of RecordFunction has no argument of ours.
thread_local std::map<const void*, int64_t>* watched = nullptr;

std::unique_ptr<at::ObserverContext> note_batch_norm(const at::RecordFunction& call) {
  if (watched == nullptr || std::string_view(call.name()) != "aten::batch_norm") return nullptr;
  const auto inputs = call.inputs();
  if (inputs.size() > 3 && inputs[0].isTensor() && inputs[3].isTensor() && inputs[3].toTensor().defined()) {
    const at::Tensor& input = inputs[0].toTensor();
    (*watched)[inputs[3].toTensor().const_data_ptr()] = input.numel() / input.size(1);
  }
  return nullptr;
}

std::map<const void*, int64_t> elements_seen(const nn::Instance& instance, const at::Tensor& images) {
  std::map<const void*, int64_t> elements;
  watched = &elements;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&note_batch_norm).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  try {
    const at::NoGradGuard no_grad;
    instance.forward(images);
  } catch (...) {
    at::removeCallback(handle);
    watched = nullptr;
    throw;
  }
  at::removeCallback(handle);
  watched = nullptr;
  return elements;
}

// The number of values in a channel.
double count_of(const BatchNormInfo& norm, int64_t samples) {
  return static_cast<double>(samples * norm.elements_per_sample);
}

// combine(left's count, right's count) for each batch norm gives what combines a channel: it changes the mean
// and the deviation of the left by those of the right.
template <class Combine>
Moments combined(const std::vector<BatchNormInfo>& norms, Moments left, Moments right,
                 const Combine& combine) {
  if (left.samples == 0) return right;
  if (right.samples == 0) return left;
  double* ours = left.values.data();
  const double* theirs = right.values.data();
  for (const BatchNormInfo& norm : norms) {
    const auto combine_channel = combine(count_of(norm, left.samples), count_of(norm, right.samples));
    const int64_t channels = norm.channels;
    for (int64_t c = 0; c < channels; ++c)
      combine_channel(ours[c], ours[channels + c], theirs[c], theirs[channels + c]);
    ours += 2 * channels;
    theirs += 2 * channels;
  }
  left.samples += right.samples;
  return left;
}

}  // namespace

// kernels::add_moments has the same formula in another order of operations. Both are bits of a run.
Moments pooled(const std::vector<BatchNormInfo>& norms, Moments left, Moments right) {
  return combined(norms, std::move(left), std::move(right), [](double left_count, double right_count) {
    const double part = right_count / (left_count + right_count);
    const double weight = left_count * right_count / (left_count + right_count);
    return [=](double& mean, double& deviation, double right_mean, double right_deviation) {
      const double delta = right_mean - mean;
      mean += delta * part;
      deviation = deviation + right_deviation + delta * delta * weight;
    };
  });
}

Moments averaged(const std::vector<BatchNormInfo>& norms, Moments left, Moments right) {
  return combined(norms, std::move(left), std::move(right), [](double left_count, double right_count) {
    const double part = right_count / (left_count + right_count);
    return [=](double& mean, double& deviation, double right_mean, double right_deviation) {
      mean = (1 - part) * mean + part * right_mean;
      const double variance =
          (1 - part) * deviation / (left_count - 1) + part * right_deviation / (right_count - 1);
      deviation = variance * (left_count + right_count - 1);
    };
  });
}

std::vector<BatchNormInfo> probe_batch_norms(const nn::Instance& instance, const nn::NetworkInput& input) {
  constexpr int64_t kSamples = 2;
  const at::Tensor first = *instance.module->parameters().begin();
  std::map<std::string, at::Tensor> before;
  for (const auto& item : instance.module->named_buffers()) before[item.key()] = item.value().clone();
  nn::begin_training(instance);
  const std::vector<int64_t> image{kSamples, input.channels, input.height, input.width},
      sequence{kSamples, input.channels, std::min(input.time_steps, kSamples)};
  const auto elements = elements_seen(
      instance,
      at::rand(input.time_steps > 0 ? sequence : image, first.options().device(at::kCPU).requires_grad(false))
          .to(first.device()));

  std::vector<BatchNormInfo> info;
  std::map<std::string, bool> known;
  for_each_batch_norm(instance, [&](const std::string& name, auto& norm) {
    const auto seen = elements.find(norm.running_mean.const_data_ptr());
    if (seen == elements.end())
      throw Error(ErrorCode::invalid_option, "batch norm \"" + name + "\" is not used in forward",
                  "remove it from the network");
    info.push_back({name, norm.running_mean.numel(), norm.options.momentum().value_or(0.0),
                    !norm.options.momentum().has_value(), /*starts_as_mean=*/false, seen->second / kSamples});
    for (const char* buffer : {"running_mean", "running_var", "num_batches_tracked"})
      known[name.empty() ? buffer : name + "." + buffer] = true;
  });
  for (const auto& item : instance.module->named_buffers()) {
    if (!known.contains(item.key()) && !at::equal(before[item.key()], item.value())) {
      throw Error(ErrorCode::invalid_option,
                  "buffer \"" + item.key() +
                      "\" changes in forward, and only batch norms' statistics can be kept equal for any "
                      "number of workers",
                  "keep such state outside the network, or make it a parameter");
    }
    at::Tensor value = item.value();
    value.copy_(before[item.key()]);
  }
  return info;
}

int64_t count_batch_norms(const nn::Instance& instance) {
  int64_t count = 0;
  for_each_batch_norm(instance, [&](const std::string&, auto&) { ++count; });
  return count;
}

std::vector<BatchNormInfo> with_start(std::vector<BatchNormInfo> norms, BatchNormStart start) {
  for (BatchNormInfo& norm : norms) norm.starts_as_mean = start == BatchNormStart::mean;
  return norms;
}

BatchNorms::BatchNorms(const nn::Instance& instance, const std::vector<BatchNormInfo>& info)
    : info_(info), instance_(instance) {
  for_each_batch_norm(instance, [&](const std::string&, auto& norm) {
    norm.options.momentum(1.0);
    means_.push_back(norm.running_mean);
    variances_.push_back(norm.running_var);
    batches_.push_back(norm.num_batches_tracked);
  });
}

at::Tensor BatchNorms::statistics() const {
  return values_of([](const at::Tensor& buffer) { return buffer.unsqueeze(0); });
}

at::Tensor BatchNorms::statistics(const kernels::ShardsTogether& together) const {
  return values_of([&](const at::Tensor& buffer) { return together.statistics(buffer); });
}

at::Tensor BatchNorms::values_of(const std::function<at::Tensor(const at::Tensor& buffer)>& of_buffer) const {
  if (means_.empty()) return {};
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < means_.size(); ++i) {
    all.push_back(of_buffer(means_[i]));
    all.push_back(of_buffer(variances_[i]));
  }
  return at::cat(all, /*dim=*/1).to(at::kDouble);
}

// Zeros, because the last statistics times 0 are added to the new ones: memory of no value may be a NaN.
void BatchNorms::use_other_memory() {
  for (const std::vector<at::Tensor>* buffers : {&means_, &variances_, &batches_}) {
    for (at::Tensor buffer : *buffers) buffer.set_data(at::zeros_like(buffer));
  }
}

Moments moments_from(const std::vector<BatchNormInfo>& norms, const double* statistics, int64_t samples) {
  int64_t size = 0;
  for (const BatchNormInfo& norm : norms) size += 2 * norm.channels;
  Moments moments{samples, {statistics, statistics + size}};
  double* values = moments.values.data();
  for (const BatchNormInfo& norm : norms) {
    for (int64_t c = 0; c < norm.channels; ++c) values[norm.channels + c] *= count_of(norm, samples) - 1;
    values += 2 * norm.channels;
  }
  return moments;
}

void BatchNorms::load(const SharedWeights& weights) const {
  const at::NoGradGuard no_grad;
  for (const auto& item : instance_.module->named_buffers()) {
    at::Tensor value = item.value();
    value.copy_(weights.buffer(item.key()));
  }
}

namespace {

struct Masters {
  std::vector<at::Tensor> statistics = {};  // running mean and variance of each batch norm
  std::vector<at::Tensor> batches = {};
};

Masters masters_of(const SharedWeights& weights, const std::vector<BatchNormInfo>& info) {
  Masters masters;
  for (const BatchNormInfo& norm : info) {
    const std::string prefix = norm.name.empty() ? "" : norm.name + ".";
    masters.statistics.push_back(weights.buffer(prefix + "running_mean"));
    masters.statistics.push_back(weights.buffer(prefix + "running_var"));
    masters.batches.push_back(weights.buffer(prefix + "num_batches_tracked"));
  }
  return masters;
}

// The number of mini-batches so far, if a momentum depends on it.
std::vector<int64_t> counts_of(const std::vector<BatchNormInfo>& info,
                               const std::vector<at::Tensor>& batches) {
  std::vector<int64_t> counts(info.size());
  if (std::ranges::none_of(info, [](const auto& norm) { return norm.cumulative || norm.starts_as_mean; }))
    return counts;
  const at::Tensor host = at::stack(batches).to(at::kCPU, at::kLong);
  std::copy_n(host.const_data_ptr<int64_t>(), counts.size(), counts.begin());
  return counts;
}

double momentum_after(const BatchNormInfo& norm, int64_t batches) {
  if (!norm.cumulative && !norm.starts_as_mean) return norm.momentum;
  const double share = 1.0 / static_cast<double>(batches);
  return norm.cumulative ? share : std::max(share, norm.momentum);
}

}  // namespace

// Reads and writes all of them at once, because each time waits for the device.
void apply_moments(SharedWeights& weights, const std::vector<BatchNormInfo>& norms, const Moments& moments) {
  const Masters masters = masters_of(weights, norms);
  at::_foreach_add_(masters.batches, 1);
  const std::vector<int64_t> batches = counts_of(norms, masters.batches);
  const at::Tensor host = at::cat(masters.statistics).to(at::kCPU, at::kDouble);
  double* running = host.mutable_data_ptr<double>();
  const double* values = moments.values.data();
  for (size_t i = 0; i < norms.size(); ++i) {
    const double momentum = momentum_after(norms[i], batches[i]);
    for (const double divisor : {1.0, count_of(norms[i], moments.samples) - 1}) {
      for (int64_t c = 0; c < norms[i].channels; ++c, ++running, ++values)
        *running = *running * (1 - momentum) + momentum * (*values / divisor);
    }
  }
  std::vector<int64_t> sizes;
  for (const at::Tensor& master : masters.statistics) sizes.push_back(master.numel());
  at::_foreach_copy_(masters.statistics,
                     host.to(masters.statistics.front().options()).split_with_sizes(sizes));
}

}  // namespace lockstep::train
