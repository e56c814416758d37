// Properties of the processor that the kernels need beside its instruction set.
#pragma once

namespace lockstep::kernels {

/// Whether a vector of 16 floats takes no longer than a vector of 8, so that more padding may be faster than
/// more vectors. AMD's Zen 4 splits wide vectors; Intel's server processors have two units of full width.
bool prefers_wide_vectors();

}  // namespace lockstep::kernels
