// Backward passes by hand give numbers without a graph.
#pragma once

namespace lockstep::kernels {

/// At the beginning of such a backward pass: throws invalid_option where its result is to be differentiated
/// again (create_graph), which would silently lack a part.
void check_first_derivative();

}  // namespace lockstep::kernels
