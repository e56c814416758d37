// Gradients that travel between ranks in fewer bits, for networks that the network slows down. What is left
// out makes the weights depend on the number of ranks, and on nothing else of where they were computed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// How the nodes of the ranks come together. One thread.
class GradientCompressor {
 public:
  virtual ~GradientCompressor() = default;
  /// As Communicator::exchange_nodes: nodes with which this rank can finish the tree, in memory that the next
  /// call may use again.
  virtual std::vector<comm::Node> exchange(const std::vector<comm::Node>& nodes, int64_t shard_count) = 0;
};

/// tree: all bits. bf16, fp16: each rank's sum rounded to 16 bits, added in 32. powersgd: each matrix of a
/// rank's sum as the product of two thin ones of `rank` columns (Vogels et al., arXiv:1905.13727), with what
/// that leaves out added to the next step's; vectors travel whole. Its memory of what was left out is each
/// rank's own and begins empty, also after a resume.
std::unique_ptr<GradientCompressor> make_gradient_compressor(ExchangeKind kind, comm::Communicator& comm,
                                                             const SharedWeights& weights, int64_t rank);

}  // namespace lockstep::train
