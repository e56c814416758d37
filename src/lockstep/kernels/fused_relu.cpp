#include "lockstep/kernels/fused_relu.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/relu_kernels.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/internal/typed.h"

namespace lockstep::kernels {
namespace {

using kernels::Rows;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradient in the output's type and order of memory.
at::Tensor like(const at::Tensor& gradient, const at::Tensor& output) {
  if (gradient.scalar_type() == output.scalar_type() && gradient.strides() == output.strides())
    return gradient;
  return at::empty_like(output).copy_(gradient);
}

at::Tensor input_gradient_of(const at::Tensor& gradient, const at::Tensor& output) {
  const at::Tensor ordered = like(gradient, output);
  const at::Tensor result = memory_of_result(gradient, ordered);
  visit_type(output.scalar_type(), [&](auto type) {
    using T = decltype(type);
    kernels::relu_kernels<T>().relu_gradient(1, output.numel(), {data<T>(ordered), 0}, {data<T>(output), 0},
                                             {data<T>(result), 0});
  });
  return result;
}

bool is_handled(const at::Tensor& tensor, const at::Tensor& first) {
  const bool type = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
  return type && tensor.scalar_type() == first.scalar_type() && tensor.is_cpu() && tensor.numel() > 0;
}

class Relu : public torch::autograd::Function<Relu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, bool in_place) {
    const at::Tensor output = relu_into(input, in_place ? input : at::empty_like(input));
    if (in_place) context->mark_dirty({input});
    context->save_for_backward({output});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_derivative();
    return {input_gradient_of(gradients[0], context->get_saved_variables()[0]), at::Tensor()};
  }
};

class AddRelu : public torch::autograd::Function<AddRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor output = at::empty_like(a);
    visit_type(a.scalar_type(), [&](auto type) {
      using T = decltype(type);
      kernels::relu_kernels<T>().add_relu(a.numel(), data<T>(a), data<T>(b), data<T>(output));
    });
    context->save_for_backward({output});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_derivative();
    const at::Tensor gradient = input_gradient_of(gradients[0], context->get_saved_variables()[0]);
    return {gradient, gradient};
  }
};

/// Whether the part is the channels of `whole` that begin at `begin`.
bool is_in_place(const at::Tensor& part, const at::Tensor& whole, int64_t begin) {
  return whole.defined() && part.is_alias_of(whole) && part.storage_offset() == begin;
}

int64_t channels_of(const std::vector<at::Tensor>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const at::Tensor& part) { return sum + part.size(1); });
}

/// Not an input in the graph, because the output is the same tensor.
struct Whole {
  at::Tensor images;
};

class ConcatenateRelu : public torch::autograd::Function<ConcatenateRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList parts, const Whole& whole) {
    const at::Tensor& first = parts.front();
    const int64_t all = channels_of(parts.vec());
    const at::Tensor output = whole.images.defined()
                                  ? whole.images
                                  : at::empty({first.size(0), all, first.size(2), first.size(3)},
                                              first.options().memory_format(at::MemoryFormat::ChannelsLast));
    std::vector<int64_t> channels;
    visit_type(first.scalar_type(), [&](auto type) {
      using T = decltype(type);
      int64_t begin = 0;
      for (const at::Tensor& part : parts) {
        const int64_t count = part.size(1);
        if (!is_in_place(part, output, begin))
          kernels::relu_kernels<T>().relu(output.numel() / all, count, {data<T>(part), count},
                                          {data<T>(output) + begin, all});
        begin += count;
        channels.push_back(count);
      }
    });
    context->save_for_backward({output});
    context->saved_data["channels"] = channels;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_derivative();
    const at::Tensor output = context->get_saved_variables()[0];
    const at::Tensor gradient = like(gradients[0], output);
    const int64_t all = output.size(1);
    variable_list results;
    visit_type(output.scalar_type(), [&](auto type) {
      using T = decltype(type);
      int64_t begin = 0;
      for (const int64_t count : context->saved_data["channels"].toIntVector()) {
        results.push_back(at::empty({output.size(0), count, output.size(2), output.size(3)},
                                    output.options().memory_format(at::MemoryFormat::ChannelsLast)));
        kernels::relu_kernels<T>().relu_gradient(
            output.numel() / all, count, {data<T>(gradient) + begin, all}, {data<T>(output) + begin, all},
            {data<T>(results.back()), count});
        begin += count;
      }
    });
    results.emplace_back();  // of `whole`
    return results;
  }
};

}  // namespace

bool fits_fused_relu(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return is_handled(tensor, tensors.front()) && tensor.is_non_overlapping_and_dense() &&
           tensor.strides() == tensors.front().strides();
  });
}

bool fits_concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole) {
  if (whole.defined() &&
      (whole.size(1) != channels_of(parts) || whole.scalar_type() != parts.front().scalar_type()))
    return false;
  int64_t begin = 0;
  return std::all_of(parts.begin(), parts.end(), [&](const at::Tensor& part) {
    const bool in_place = is_in_place(part, whole, begin);
    begin += part.size(1);
    return is_handled(part, parts.front()) && part.dim() == 4 &&
           (in_place || part.is_contiguous(at::MemoryFormat::ChannelsLast));
  });
}

at::Tensor relu_into(const at::Tensor& input, const at::Tensor& output) {
  visit_type(input.scalar_type(), [&](auto type) {
    using T = decltype(type);
    kernels::relu_kernels<T>().relu(1, input.numel(), {data<T>(input), 0}, {data<T>(output), 0});
  });
  return output;
}

at::Tensor fused_relu(const at::Tensor& input, bool in_place) { return Relu::apply(input, in_place); }

at::Tensor add_relu(const at::Tensor& a, const at::Tensor& b) { return AddRelu::apply(a, b); }

at::Tensor concatenate_relu(const std::vector<at::Tensor>& parts, const at::Tensor& whole) {
  return ConcatenateRelu::apply(at::TensorList(parts), Whole{whole});
}

}  // namespace lockstep::kernels
