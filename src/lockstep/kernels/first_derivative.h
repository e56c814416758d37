// Our own backward passes give gradients without a graph.
#pragma once

namespace lockstep::kernels {

/// To be called at the beginning of such a backward pass. Throws invalid_option if its result is to be
/// differentiated again (create_graph), because a part of the second derivative would be missing.
void check_first_derivative();

}  // namespace lockstep::kernels
