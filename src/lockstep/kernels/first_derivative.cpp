#include "lockstep/kernels/first_derivative.h"

#include <torch/csrc/autograd/grad_mode.h>

#include "lockstep/base/error.h"

namespace lockstep::kernels {

void check_first_derivative() {
  // LibTorch's engine records backward only for create_graph.
  if (!at::GradMode::is_enabled()) return;
  throw Error(ErrorCode::invalid_option,
              "a gradient of a gradient (create_graph) is asked for, and the kernels of this project give "
              "first derivatives only",
              "choose LibTorch's with --kernels engine, in C++ Kernels::engine; lstm and gru layers have no "
              "second derivative");
}

}  // namespace lockstep::kernels
