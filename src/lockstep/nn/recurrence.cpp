#include "lockstep/nn/recurrence.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/first_derivative.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor maybe(const at::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : std::nullopt; }

/// Time steps one at a time, each copied to the start of a block of memory, because the bits of a product may
/// depend on the alignment of its operands.
class StepReader {
 public:
  explicit StepReader(const at::Tensor& values)
      : values_(values), step_(at::empty_like(values.select(0, 0), at::MemoryFormat::Contiguous)) {}
  const at::Tensor& at(int64_t t) { return step_.copy_(values_.select(0, t)); }

 private:
  const at::Tensor& values_;
  at::Tensor step_;
};

/// [T,b,features] for T = `steps`, in the type of `like` [b,...].
at::Tensor room(int64_t steps, const at::Tensor& like, int64_t features) {
  return at::empty({steps, like.size(0), features}, like.options());
}

/// Sum over time and batch of gradient^T input: the gradient of a weight.
at::Tensor weight_gradient(const at::Tensor& gradients, const at::Tensor& inputs) {
  return at::mm(gradients.flatten(0, 1).t(), inputs.flatten(0, 1));
}

at::Tensor input_gradient(const at::Tensor& gradients, const at::Tensor& weight) {
  return at::mm(gradients.flatten(0, 1), weight).view({gradients.size(0), gradients.size(1), weight.size(1)});
}

/// Gradients that reach a time step: its own and those of the next one. In padded rows they pass through
/// unchanged.
struct Arriving {
  at::Tensor used;    ///< zeros in padded rows
  at::Tensor passed;  ///< zeros in the other rows; undefined without padding
};

Arriving arriving(const at::Tensor& later, const at::Tensor& own, const at::Tensor& padding, int64_t t) {
  const at::Tensor sum = own.defined() ? later + own.select(0, t) : later;
  if (!padding.defined()) return {sum, {}};
  const at::Tensor padded = padding.select(0, t);
  return {sum.masked_fill(padded, 0), later.masked_fill(padded.logical_not(), 0)};
}

at::Tensor with_passed(const at::Tensor& gradient, const at::Tensor& passed) {
  return passed.defined() ? gradient + passed : gradient;
}

/// `next` where the row is not padding at time t, otherwise `before`.
at::Tensor unless_padded(const at::Tensor& padding, int64_t t, const at::Tensor& before,
                         const at::Tensor& next) {
  return padding.defined() ? at::where(padding.select(0, t), before, next) : next;
}

void put_output(const at::Tensor& outputs, int64_t t, const at::Tensor& h, const at::Tensor& padding) {
  outputs.select(0, t).copy_(h);
  if (padding.defined()) outputs.select(0, t).masked_fill_(padding.select(0, t), 0);
}

class Lstm : public torch::autograd::Function<Lstm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& values,
                               const at::Tensor& input_weight, const at::Tensor& hidden_weight,
                               const at::Tensor& bias, at::Tensor h, at::Tensor c,
                               const MaybeTensor& maybe_padding) {
    const at::Tensor padding = maybe_padding.value_or(at::Tensor());
    const int64_t steps = values.size(0), size = h.size(1);
    const at::Tensor outputs = room(steps, h, size), gates = room(steps, h, 4 * size),
                     before = room(steps, h, size), cells = room(steps + 1, h, size);
    StepReader reader(values);
    cells[0].copy_(c);
    for (int64_t t = 0; t < steps; ++t) {
      before.select(0, t).copy_(h);
      const at::Tensor now = at::addmm(bias, reader.at(t), input_weight.t()).addmm_(h, hidden_weight.t());
      const auto parts = now.chunk(4, 1);
      now.narrow(1, 0, 2 * size).sigmoid_();
      parts[2].tanh_();
      parts[3].sigmoid_();
      gates.select(0, t).copy_(now);
      const at::Tensor next = at::mul(parts[1], c).addcmul_(parts[0], parts[2]);
      const at::Tensor output = at::tanh(next).mul_(parts[3]);
      c = unless_padded(padding, t, c, next);
      h = unless_padded(padding, t, h, output);
      cells.select(0, t + 1).copy_(c);
      put_output(outputs, t, h, padding);
    }
    context->save_for_backward({values, input_weight, hidden_weight, gates, before, cells, padding});
    context->mark_non_differentiable({c});
    return {outputs, h, c};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    kernels::check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor &values = saved[0], &gates = saved[3], &before = saved[4], &cells = saved[5],
                     &padding = saved[6];
    const at::Tensor gate_gradients = at::empty_like(gates);
    at::Tensor h = gradients[1].defined() ? gradients[1] : at::zeros_like(cells[0]);
    at::Tensor c = at::zeros_like(h);
    for (int64_t t = values.size(0) - 1; t >= 0; --t) {
      const auto gate = gates.select(0, t).chunk(4, 1);
      const auto gradient = gate_gradients.select(0, t).chunk(4, 1);
      const at::Tensor squashed = at::tanh(cells.select(0, t + 1));
      const Arriving to_h = arriving(h, gradients[0], padding, t), to_c = arriving(c, {}, padding, t);
      const at::Tensor cell = to_c.used + at::tanh_backward(to_h.used * gate[3], squashed);
      gradient[0].copy_(at::sigmoid_backward(cell * gate[2], gate[0]));
      gradient[1].copy_(at::sigmoid_backward(cell * cells.select(0, t), gate[1]));
      gradient[2].copy_(at::tanh_backward(cell * gate[0], gate[2]));
      gradient[3].copy_(at::sigmoid_backward(to_h.used * squashed, gate[3]));
      c = with_passed(cell * gate[1], to_c.passed);
      h = with_passed(at::mm(gate_gradients.select(0, t), saved[2]), to_h.passed);
    }
    const at::Tensor to_values =
        context->needs_input_grad(0) ? input_gradient(gate_gradients, saved[1]) : at::Tensor();
    return {to_values,
            weight_gradient(gate_gradients, values),
            weight_gradient(gate_gradients, before),
            gate_gradients.flatten(0, 1).sum(0),
            {},
            {},
            {}};
  }
};

class Gru : public torch::autograd::Function<Gru> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& values,
                               const at::Tensor& input_weight, const at::Tensor& hidden_weight,
                               const at::Tensor& input_bias, const at::Tensor& hidden_bias, at::Tensor h,
                               const MaybeTensor& maybe_padding) {
    const at::Tensor padding = maybe_padding.value_or(at::Tensor());
    const int64_t steps = values.size(0), size = h.size(1);
    // The gates, and the hidden part of the new gate before the reset gate scales it.
    const at::Tensor outputs = room(steps, h, size), gates = room(steps, h, 3 * size),
                     parts = room(steps, h, size), before = room(steps, h, size);
    StepReader reader(values);
    for (int64_t t = 0; t < steps; ++t) {
      before.select(0, t).copy_(h);
      const at::Tensor now = at::addmm(input_bias, reader.at(t), input_weight.t());
      const at::Tensor hidden = at::addmm(hidden_bias, h, hidden_weight.t());
      now.narrow(1, 0, 2 * size).add_(hidden.narrow(1, 0, 2 * size)).sigmoid_();
      const auto gate = now.chunk(3, 1);
      const at::Tensor part = hidden.narrow(1, 2 * size, size);
      gate[2].addcmul_(gate[0], part).tanh_();
      gates.select(0, t).copy_(now);
      parts.select(0, t).copy_(part);
      h = unless_padded(padding, t, h, at::sub(h, gate[2]).mul_(gate[1]).add_(gate[2]));
      put_output(outputs, t, h, padding);
    }
    context->save_for_backward({values, input_weight, hidden_weight, gates, parts, before, padding});
    return {outputs, h};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    kernels::check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor &values = saved[0], &gates = saved[3], &parts = saved[4], &before = saved[5],
                     &padding = saved[6];
    const int64_t size = before.size(2);
    const at::Tensor input_side = at::empty_like(gates), hidden_side = at::empty_like(gates);
    at::Tensor h = gradients[1].defined() ? gradients[1] : at::zeros_like(before[0]);
    for (int64_t t = values.size(0) - 1; t >= 0; --t) {
      const auto gate = gates.select(0, t).chunk(3, 1);
      const auto to_input = input_side.select(0, t).chunk(3, 1);
      const Arriving to_h = arriving(h, gradients[0], padding, t);
      to_input[2].copy_(at::tanh_backward(to_h.used * (1 - gate[1]), gate[2]));
      to_input[1].copy_(at::sigmoid_backward(to_h.used * (before.select(0, t) - gate[2]), gate[1]));
      to_input[0].copy_(at::sigmoid_backward(to_input[2] * parts.select(0, t), gate[0]));
      const at::Tensor to_hidden = hidden_side.select(0, t);
      to_hidden.narrow(1, 0, 2 * size).copy_(input_side.select(0, t).narrow(1, 0, 2 * size));
      to_hidden.narrow(1, 2 * size, size).copy_(to_input[2] * gate[0]);
      h = with_passed(at::addcmul(at::mm(to_hidden, saved[2]), to_h.used, gate[1]), to_h.passed);
    }
    const at::Tensor to_values =
        context->needs_input_grad(0) ? input_gradient(input_side, saved[1]) : at::Tensor();
    return {to_values,
            weight_gradient(input_side, values),
            weight_gradient(hidden_side, before),
            input_side.flatten(0, 1).sum(0),
            hidden_side.flatten(0, 1).sum(0),
            {},
            {}};
  }
};

class LinearOfSteps : public torch::autograd::Function<LinearOfSteps> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values, const at::Tensor& weight,
                            const MaybeTensor& bias) {
    const at::Tensor outputs = room(values.size(0), values.select(0, 0), weight.size(0));
    StepReader reader(values);
    for (int64_t t = 0; t < values.size(0); ++t) {
      outputs.select(0, t).copy_(bias ? at::addmm(*bias, reader.at(t), weight.t())
                                      : at::mm(reader.at(t), weight.t()));
    }
    context->save_for_backward({values, weight});
    context->saved_data["bias"] = bias.has_value();
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    kernels::check_first_derivative();
    const auto saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor to_values =
        context->needs_input_grad(0) ? input_gradient(gradient, saved[1]) : at::Tensor();
    return {to_values, weight_gradient(gradient, saved[0]),
            context->saved_data["bias"].toBool() ? gradient.flatten(0, 1).sum(0) : at::Tensor()};
  }
};

}  // namespace

Recurrence run_lstm(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                    const at::Tensor& h, const at::Tensor& c) {
  const auto made = Lstm::apply(values, weights.input, weights.hidden,
                                weights.input_bias + weights.hidden_bias, h, c, maybe(padding));
  return {made[0], made[1], made[2]};
}

Recurrence run_gru(const at::Tensor& values, const at::Tensor& padding, const CellWeights& weights,
                   const at::Tensor& h) {
  const auto made = Gru::apply(values, weights.input, weights.hidden, weights.input_bias, weights.hidden_bias,
                               h, maybe(padding));
  return {made[0], made[1], {}};
}

at::Tensor linear_of_steps(const at::Tensor& values, const at::Tensor& weight, const at::Tensor& bias) {
  // A time step has few numbers, so float32 is as fast as narrower types, also under autocast.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::Tensor steps = values.to(weight.scalar_type()).permute({2, 0, 1}).contiguous();
  return LinearOfSteps::apply(steps, weight, maybe(bias)).permute({1, 2, 0});
}

}  // namespace lockstep::nn
