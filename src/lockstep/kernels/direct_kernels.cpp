#include "lockstep/kernels/direct_kernels.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "lockstep/device/dispatch_scope.h"
#include "lockstep/kernels/direct_convolution.h"
#include "lockstep/kernels/direct_linear.h"
#include "lockstep/kernels/direct_pooling.h"
#include "lockstep/kernels/fused_batch_norm.h"
#include "lockstep/kernels/fused_relu.h"
#include "lockstep/kernels/group_batch_norm.h"
#include "lockstep/kernels/memory_order.h"
#include "lockstep/kernels/shards_together.h"

namespace lockstep::kernels {
namespace {

thread_local bool enabled_here = false;
thread_local std::vector<at::Tensor>* row_copies_here = nullptr;

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                  c10::SymInt groups) {
  return direct_convolution({input, weight, bias, stride, padding, dilation, groups});
}

at::Tensor max_pool2d(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const auto window = [&](auto part) {
    return Window{part(kernel), part(stride.empty() ? kernel : stride), part(padding), part(dilation),
                  ceil_mode};
  };
  if (enabled_here && !kernel.empty() && !padding.empty() && !dilation.empty()) {
    const auto output = direct_max_pool(input, window([](at::IntArrayRef pair) { return pair.front(); }),
                                        window([](at::IntArrayRef pair) { return pair.back(); }), false);
    if (output) return *output;
  }
  return at::max_pool2d(input, kernel, stride, padding, dilation, ceil_mode);
}

// The engine's means of images, whose last bits may depend on the size of the batch.
template <class Run>
at::Tensor means_of_shards(const at::Tensor& images, const Run& run) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const bool several = enabled_here && images.dim() == 4 && images.size(0) % ShardsTogether::count() == 0;
  return several ? shard_by_shard(images, run) : run(images);
}

at::Tensor average_pool2d(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef stride,
                          at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                          std::optional<int64_t> divisor) {
  return means_of_shards(input, [&](const at::Tensor& images) {
    return at::avg_pool2d(images, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  });
}

at::Tensor adaptive_average_pool2d(const at::Tensor& input, c10::SymIntArrayRef size) {
  return means_of_shards(
      input, [&](const at::Tensor& images) { return at::adaptive_avg_pool2d_symint(images, size); });
}

at::Tensor mean(const at::Tensor& input, at::OptionalIntArrayRef dimensions, bool keep,
                std::optional<at::ScalarType> type) {
  const auto run = [&](const at::Tensor& images) { return at::mean(images, dimensions, keep, type); };
  if (dimensions && is_over_places(input, *dimensions)) return means_of_shards(input, run);
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  return run(input);
}

at::Tensor relu(const at::Tensor& input) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  if (!enabled_here || !fits_fused_relu({input})) return at::relu(input);
  const auto output = relu_of_batch_norm(input, false);
  return output ? *output : fused_relu(input, false);
}

at::Tensor& relu_in_place(at::Tensor& input) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  if (!enabled_here || !fits_fused_relu({input})) return at::relu_(input);
  if (!relu_of_batch_norm(input, true)) fused_relu(input, true);
  return input;
}

at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                      const std::optional<at::Tensor>& running_variance, bool training, double momentum,
                      double epsilon, bool cudnn_enabled) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const auto given = [](const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); };
  const BatchNormState state{
      given(weight), given(bias), given(running_mean), given(running_variance), momentum, epsilon, training};
  auto output = fused_batch_norm(input, state, /*relu=*/false);
  if (!output) output = group_batch_norm(input, state);
  return output ? *output
                : at::batch_norm(input, weight, bias, running_mean, running_variance, training, momentum,
                                 epsilon, cudnn_enabled);
}

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const auto output = direct_linear(input, weight, bias);
  return output ? *output : at::linear(input, weight, bias);
}

// The linear layers of torch::nn call addmm with a bias and matmul without one. Their weight comes
// transposed.
at::Tensor addmm(const at::Tensor& bias, const at::Tensor& input, const at::Tensor& transposed,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const bool is_layer =
      enabled_here && bias.dim() == 1 && transposed.dim() == 2 && beta.equal(1) && alpha.equal(1);
  const auto output = is_layer ? direct_linear(input, transposed.t(), bias) : std::nullopt;
  return output ? *output : at::addmm(bias, input, transposed, beta, alpha);
}

at::Tensor matmul(const at::Tensor& input, const at::Tensor& transposed) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const auto output = enabled_here && transposed.dim() == 2
                          ? direct_linear(input, transposed.t(), std::nullopt)
                          : std::nullopt;
  return output ? *output : at::matmul(input, transposed);
}

at::Tensor copied_to_rows(const at::Tensor& images) {
  at::Tensor copy = channels_first(images);
  if (row_copies_here != nullptr) row_copies_here->push_back(copy);
  return copy;
}

// If no view of images stored channels last has these sizes: a copy in the engine's order of memory, of which
// there is such a view.
at::Tensor viewable(const at::Tensor& input, c10::SymIntArrayRef sizes) {
  if (!enabled_here || !is_channels_last(input)) return input;
  const auto wanted = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(sizes), input.numel());
  return at::detail::computeStride(input.sizes(), input.strides(), wanted) ? input : copied_to_rows(input);
}

at::Tensor view(const at::Tensor& input, c10::SymIntArrayRef sizes) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  return viewable(input, sizes).view_symint(sizes);
}

at::Tensor reshape(const at::Tensor& input, c10::SymIntArrayRef sizes) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  return at::reshape_symint(viewable(input, sizes), sizes);
}

at::Tensor flatten(const at::Tensor& input, int64_t first, int64_t last) {
  const c10::impl::ExcludeDispatchKeyGuard guard(device::kScopeKey);
  const bool rows = enabled_here && is_channels_last(input) && first == 1 && (last == 3 || last == -1);
  return at::flatten(rows ? copied_to_rows(input) : input, first, last);
}

// Registered once for the process and kept until its end. The dispatcher calls these kernels only if the key
// is included.
void intercept_operators() {
  static torch::Library library = [] {
    device::let_other_operators_pass();
    torch::Library made(torch::Library::IMPL, "aten", device::kScopeKey, __FILE__, __LINE__);
    made.impl("conv2d", &conv2d);
    made.impl("max_pool2d", &max_pool2d);
    made.impl("avg_pool2d", &average_pool2d);
    made.impl("adaptive_avg_pool2d", &adaptive_average_pool2d);
    made.impl("mean.dim", &mean);
    made.impl("relu", &relu);
    made.impl("relu_", &relu_in_place);
    made.impl("batch_norm", &batch_norm);
    made.impl("linear", &linear);
    made.impl("addmm", &addmm);
    made.impl("matmul", &matmul);
    made.impl("view", &view);
    made.impl("reshape", &reshape);
    made.impl("flatten.using_ints", &flatten);
    return made;
  }();
}

}  // namespace

struct DirectKernels::Included {
  c10::impl::IncludeDispatchKeyGuard guard{device::kScopeKey};
};

DirectKernels::DirectKernels(bool enabled) : outer_(enabled_here) {
  intercept_operators();
  enabled_here = enabled;
  included_ = std::make_unique<Included>();
}

DirectKernels::~DirectKernels() { enabled_here = outer_; }

bool DirectKernels::enabled() { return enabled_here; }

bool is_over_places(const at::Tensor& images, at::IntArrayRef dimensions) {
  return images.dim() == 4 && !dimensions.empty() && std::ranges::all_of(dimensions, [](int64_t dimension) {
           return dimension == 2 || dimension == 3 || dimension == -1 || dimension == -2;
         });
}

RowCopies::RowCopies() : outer_(row_copies_here) { row_copies_here = &copies_; }

RowCopies::~RowCopies() { row_copies_here = outer_; }

bool RowCopies::changed() const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [](const at::Tensor& copy) { return copy._version() > 0; });
}

}  // namespace lockstep::kernels
