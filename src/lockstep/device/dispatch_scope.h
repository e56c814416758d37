// The head of LibTorch's dispatcher: where a scope on one thread can meet operators before autograd and
// autocast see them.
#pragma once

#include <c10/core/DispatchKey.h>

namespace lockstep::device {

/// A functionality key above autograd that LibTorch keeps for such experiments and uses nowhere itself. A
/// scope registers kernels on it for the operators it means, includes it for its thread
/// (c10::impl::IncludeDispatchKeyGuard), and excludes it to go on as if it were not there.
constexpr c10::DispatchKey kScopeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Lets every operator without a kernel of its own on kScopeKey pass. Call before the key is included; once
/// is enough, more do no harm.
void let_other_operators_pass();

}  // namespace lockstep::device
