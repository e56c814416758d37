#include "lockstep/data/shard_output.h"

#include <ATen/ATen.h>

#include "lockstep/base/dimensions.h"
#include "lockstep/base/error.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/inventory.h"

namespace lockstep::data {
namespace {

const char* input_dimensions(bool sequences) { return sequences ? "BCT" : "BCSS"; }

const char* target_dimensions(bool one_hot, bool of_steps) {
  if (of_steps) return one_hot ? "BCT" : "BT";
  return one_hot ? "BC" : "B";
}

// [b,classes], or [b,classes,T]; zeros where there is no class.
at::Tensor one_hot_of(const at::Tensor& target, int64_t classes, at::ScalarType type) {
  const at::Tensor rows = at::one_hot(target.clamp_min(0), classes) * target.ge(0).unsqueeze(-1);
  return rows.to(type).movedim(-1, 1).contiguous();
}

at::Tensor ordered(const at::Tensor& tensor, std::string_view from, const std::string& to) {
  return to.empty() || to == from ? tensor : tensor.permute(dimension_order(from, to)).contiguous();
}

// The dimension labelled B must have as many elements as the shard has samples.
void check_collated(const at::Tensor& tensor, const std::string& labels, int64_t count,
                    const std::string& what) {
  if (!tensor.defined()) throw Error(ErrorCode::invalid_option, "the collate function returned no " + what);
  if (labels.empty()) return;
  check_labelled(labels, tensor.sizes().vec(), "the " + what + " that the collate function returned");
  const size_t batch = labels.find('B');
  if (batch == std::string::npos || tensor.size(static_cast<int64_t>(batch)) == count) return;
  throw Error(ErrorCode::invalid_option, "the " + what + " that the collate function returned, " +
                                             c10::str(tensor.sizes()) + " as \"" + labels + "\", holds " +
                                             std::to_string(tensor.size(static_cast<int64_t>(batch))) +
                                             " samples, but the shard has " + std::to_string(count));
}

}  // namespace

void check_output(const ShardOutput& output, const Dataset& dataset) {
  if (output.collate) {
    check_dimensions(output.format);
    check_dimensions(output.target_format);
    return;
  }
  const Datastore& store = dataset.store();
  if (!output.format.empty())
    dimension_order(input_dimensions(store.kind() == SampleKind::sequence), output.format);
  if (!output.target_format.empty())
    dimension_order(target_dimensions(output.one_hot, store.labels_time_steps()), output.target_format);
  if (!at::isFloatingType(output.type)) {
    throw Error(ErrorCode::invalid_option,
                std::string("a network's input cannot be of type ") + c10::toString(output.type),
                "use for example at::kFloat");
  }
}

at::Device resolve_device(const ShardOutput& output, Share share) {
  if (output.chosen_device)
    return output.chosen_device->is_cpu() ? *output.chosen_device
                                          : device::gpu_library().device(output.chosen_device->index());
  if (output.device == OutputDevice::cpu) return at::kCPU;
  const device::Inventory machine = device::inspect();
  if (share.rank < static_cast<int64_t>(machine.gpus.size()))
    return device::gpu_library().device(machine.gpus[static_cast<size_t>(share.rank)].index);
  if (output.device == OutputDevice::auto_) return at::kCPU;
  throw Error(ErrorCode::device,
              "the mini-batch queue of rank " + std::to_string(share.rank) +
                  " needs a GPU, but none is available" +
                  (machine.gpus.empty() ? ": " + machine.gpu_note : ""),
              "use OutputDevice::auto_, which uses a GPU only if there is one");
}

void give_input(Shard& shard, const ShardOutput& output, at::Device device, int64_t classes) {
  if (output.collate) {
    const Collated made = output.collate(shard.images, shard.target);
    check_collated(made.input, output.format, shard.count, "input");
    check_collated(made.target, output.target_format, shard.count, "target");
    shard.input = made.input.to(device);
    shard.target = made.target.to(device);
    return;
  }
  shard.input = ordered(to_input(shard.images, {output.type, device, output.mean, output.deviation}),
                        input_dimensions(shard.lengths.defined()), output.format);
  const bool of_steps = shard.target.dim() == 2;
  at::Tensor target = shard.target.to(device);
  if (output.one_hot) target = one_hot_of(target, classes, output.type);
  shard.target = ordered(target, target_dimensions(output.one_hot, of_steps), output.target_format);
}

}  // namespace lockstep::data
