#include "lockstep/train/planning/resident_choice.h"

#include "lockstep/device/gpu.h"

namespace lockstep::train {

ResidentChoice ResidentChooser::choose(const Plan& plan) {
  if (plan.data.streamed) return {};
  if (plan.machine.device != "cpu" && !free_bytes_)
    free_bytes_ = device::gpu_library().memory(plan.machine.gpu).free;
  return choose_resident(plan, asked_, free_bytes_.value_or(0));
}

}  // namespace lockstep::train
