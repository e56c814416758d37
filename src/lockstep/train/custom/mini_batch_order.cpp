#include "lockstep/train/custom/internal/mini_batch_order.h"

#include "lockstep/base/error.h"

namespace lockstep::train {

Json order_of(const data::QueueOptions& options) {
  return {{"mini-batch size", options.mini_batch_size},
          {"shards", options.shards},
          {"shard size", options.shard_size},
          {"seed", options.order.seed},
          {"shuffle", static_cast<int>(options.order.shuffle)}};
}

void check_order(const Json& now, const Json& before) {
  for (const auto& [name, value] : before.items()) {
    const auto found = now.find(name);
    if (found != now.end() && *found == value) continue;
    throw Error(ErrorCode::invalid_option,
                "the run began with " + name + " " + value.dump() + ", and this loop has " +
                    (found == now.end() ? "none" : found->dump()),
                "resume with the same value, or begin a new run in another folder");
  }
}

}  // namespace lockstep::train
