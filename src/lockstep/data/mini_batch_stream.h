// Streams mini-batches from a program to the workers: a thread reads ahead, and they are never all in memory.
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
  at::Tensor images;  ///< [b,C,H,W] on the CPU: u8 with C 1 or 3, which are divided by 255 for the network;
                      ///< or float32, which are not changed
  at::Tensor labels;  ///< integers [b] from 0
};

/// Returns the next mini-batch, or none after the last one.
using NextMiniBatch = std::function<std::optional<MiniBatch>()>;

struct StreamOptions {
  int64_t replicas = 1;     ///< each replica takes one mini-batch per round
  int64_t read_ahead = 16;  ///< number of mini-batches; rounded up to whole rounds
  int64_t classes = 0;      ///< 0: the classes of the mini-batches that are read ahead before the first round
  int64_t mini_batches = 0;  ///< number of mini-batches; 0: unknown
  Augment augment = {};      ///< for u8 images, seeded by (seed, epoch, sample); no mixup and no crops
  int64_t seed = 0;
  int64_t epoch = 0;
};

/// One pass over the mini-batches of a program. A thread calls `next`, up to `read_ahead` mini-batches before
/// they are used, and copies the results. All mini-batches have the size of the first one, except the last,
/// which may be smaller. The destructor waits for the current call of `next`.
class MiniBatchStream {
 public:
  /// Reads ahead, then returns. Throws what `next` throws, and invalid_option, with the mini-batch's number,
  /// for an invalid mini-batch, and if there are none.
  MiniBatchStream(NextMiniBatch next, StreamOptions options);
  ~MiniBatchStream();
  MiniBatchStream(const MiniBatchStream&) = delete;
  MiniBatchStream& operator=(const MiniBatchStream&) = delete;

  /// A placeholder for the samples, for code that does not read them: a mini-batch of black images of the
  /// right size and with the classes "0", "1", ...
  Dataset outline() const;
  bool gives_floats() const;
  int64_t classes() const;
  int64_t mini_batches() const;  ///< StreamOptions::mini_batches

  /// The mini-batches of round `round` (counted from 0) for one worker: shard i is mini-batch i of the round.
  /// A last mini-batch of one sample is joined to the previous one. None when stopped. Any thread may call
  /// it. Every worker calls it in each round, and no worker asks for a round before all have taken the
  /// previous one. Throws as the constructor does. `worker` is one of the workers of all `ranks`
  /// (Deal).
  std::optional<Batch> next(int64_t round, Share worker, int64_t ranks = 1, std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
