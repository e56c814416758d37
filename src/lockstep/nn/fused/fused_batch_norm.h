// Batch norm and ReLU in one pass each way, for pictures stored channels last on a CPU.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class BatchNorm2dImpl;
}

namespace lockstep::nn {

/// What module->forward(input) gives, then relu when asked. In training, on float32 or bfloat16 pictures [b,C,H,W] stored channels last,
/// it runs as two fused passes (Ioffe and Szegedy 2015, with the backward of the whole); else as the operators of the engine.
at::Tensor batch_norm(torch::nn::BatchNorm2dImpl& module, const at::Tensor& input, bool relu);

}  // namespace lockstep::nn
