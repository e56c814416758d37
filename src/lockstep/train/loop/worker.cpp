#include "lockstep/train/loop/worker.h"

#include <string>
#include <utility>

#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/shard_runner_options.h"

namespace lockstep::train {
namespace {

Share among_all(Share rank, Share thread) {
  return {rank.rank * thread.size + thread.rank, rank.size * thread.size};
}

data::QueueOptions queue_options(const TrainingSetup& setup, int64_t step, BatchImages images) {
  const Plan& plan = setup.plan;
  return {.mini_batch_size = plan.step.mini_batch_size,
          .shards = plan.step.shards,
          .shard_size = plan.exchange.averages() ? plan.step.mini_batch_size / plan.step.shards : 0,
          .ranks = setup.comm.size(),
          .rank_loads = plan.machine.rank_loads,
          .order = sample_order(plan.step),
          .augment = plan.data.augment,
          .cut_out = queue_cut(plan.data),
          .class_weights = plan.data.class_weights,
          .start = {plan.length.first_epoch + (step - plan.length.first_step) / plan.length.steps_per_epoch,
                    (step - plan.length.first_step) % plan.length.steps_per_epoch},
          .epochs = plan.length.first_epoch + plan.length.max_epochs,
          .read_ahead = plan.machine.read_ahead,
          .least_time_steps = plan.data.least_time_steps,
          .pinned = open_device(plan.machine.device, plan.machine.gpu).is_cuda(),
          .images_wanted = images == BatchImages::wanted};
}

// On a GPU a pass is only queued, which takes no longer for more samples.
PassSize pass_size_on(const std::string& device) {
  return {kSamplesTogether, device == "cpu" ? kLeastTogether : kSamplesTogether};
}

}  // namespace

Worker::Worker(const TrainingSetup& training_setup, const RunState& start, Share own_thread, Parts parts)
    : setup(training_setup),
      thread(own_thread),
      all(among_all(setup.comm.share(), thread)),
      runner(std::move(parts.instance), parts.weights, parts.norms, std::move(parts.options)),
      pass_threads(std::move(parts.make_runner)),
      pass_size(pass_size_on(setup.plan.machine.device)),
      step(start.step) {
  runner.set_pieces(start.pieces);
  if (!setup.plan.data.streamed)
    queue =
        std::make_unique<data::MiniBatchQueue>(setup.train, all, queue_options(setup, step, parts.images));
}

std::optional<data::Batch> Worker::next_batch() {
  if (queue) return queue->next(setup.stop);
  return setup.stream->next(step - setup.plan.length.first_step, all, setup.comm.size(), setup.stop);
}

}  // namespace lockstep::train
