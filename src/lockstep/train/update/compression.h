// Gradients that ranks exchange in fewer bits, for slow connections. The rounding makes the weights depend on
// the number of ranks, but not on the number of workers of a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// Exchanges the nodes of the ranks. One thread.
class GradientCompressor {
 public:
  virtual ~GradientCompressor() = default;
  /// As Communicator::exchange_nodes: returns nodes with which this rank can finish the tree, in memory that
  /// the next call may use again.
  virtual std::vector<comm::Node> exchange(const std::vector<comm::Node>& nodes, int64_t shard_count) = 0;
};

/// tree: sends all bits. bf16, fp16: round each rank's sum to 16 bits and add in 32. powersgd: sends each
/// matrix of a rank's sum as the product of two thin matrices of `rank` columns (Vogels et al.,
/// arXiv:1905.13727) and adds the error to the next step's sum; vectors are sent whole. Each rank keeps its
/// own errors. They are zero at the start, also after a resume.
std::unique_ptr<GradientCompressor> make_gradient_compressor(ExchangeKind kind, comm::Communicator& comm,
                                                             const SharedWeights& weights, int64_t rank);

}  // namespace lockstep::train
