// Mini-batches that a program gives one after the other, on their way to the workers: read ahead by a thread,
// and never all held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/data/datastore.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::data {

struct MiniBatch {
  at::Tensor images;  ///< [b,C,H,W] on the CPU: u8 with C 1 or 3, which the network gets divided by 255; or
                      ///< float32, which it gets as it is
  at::Tensor labels;  ///< whole numbers [b] from 0
};

/// Gives the next mini-batch, or nothing after the last.
using NextMiniBatch = std::function<std::optional<MiniBatch>()>;

struct StreamOptions {
  int64_t replicas = 1;      ///< in a round each takes one mini-batch
  int64_t read_ahead = 16;   ///< mini-batches; rounded up to whole rounds
  int64_t classes = 0;       ///< 0: those of the mini-batches that are read ahead before the first round
  int64_t mini_batches = 0;  ///< how many there are; 0: not known
  Augment augment = {};      ///< of u8 images, seeded by (seed, epoch, sample); no mixup and no crops
  int64_t seed = 0;
  int64_t epoch = 0;
};

/// One pass over what a program gives. A thread calls `next`, up to `read_ahead` mini-batches before they are
/// used, and copies what it gives. All mini-batches have the size of the first, but for the last, which may
/// be smaller. The destructor waits for the call of `next` that is under way.
class MiniBatchStream {
 public:
  /// Reads ahead, then returns. Throws what `next` throws, and invalid_option, with the mini-batch's number,
  /// for what is no MiniBatch, and where there is none.
  MiniBatchStream(NextMiniBatch next, StreamOptions options);
  ~MiniBatchStream();
  MiniBatchStream(const MiniBatchStream&) = delete;
  MiniBatchStream& operator=(const MiniBatchStream&) = delete;

  /// What stands for the samples where they are not asked for one by one: as many as a mini-batch has, of
  /// their size and classes ("0", "1", ...), all black.
  Dataset outline() const;
  bool gives_floats() const;
  int64_t classes() const;
  int64_t mini_batches() const;  ///< StreamOptions::mini_batches

  /// The mini-batches of round `round` (counted from 0) that a worker has: shard i is the round's mini-batch
  /// i. A last mini-batch of one sample joins the one before it. Nothing when stopped. Called from any thread
  /// by every worker in each round, and by none before all have had the round before. Throws as the
  /// constructor does. `worker` is one of the workers of all `ranks` (part_of_worker).
  std::optional<Batch> next(int64_t round, Share worker, int64_t ranks = 1, std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
