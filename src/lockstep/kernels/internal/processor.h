// What the kernels ask about the processor beyond its instruction set.
#pragma once

namespace lockstep::kernels {

/// Whether a vector of 16 floats takes no longer than one of 8, so that more padding may be cheaper than more
/// vectors. AMD's Zen 4 halves wide vectors; Intel's server processors have two units of full width.
bool prefers_wide_vectors();

}  // namespace lockstep::kernels
