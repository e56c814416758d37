// The head of LibTorch's dispatcher, where a scope on one thread intercepts operators before autograd and
// autocast.
#pragma once

#include <c10/core/DispatchKey.h>

namespace lockstep::device {

/// A functionality key above autograd that LibTorch reserves for experiments and does not use itself. A scope
/// registers kernels on it for its operators, includes it for its thread
/// (c10::impl::IncludeDispatchKeyGuard), and excludes it to continue without the scope.
constexpr c10::DispatchKey kScopeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Lets every operator that has no kernel of its own on kScopeKey pass. Call it before the key is included;
/// once is enough, and more calls do no harm.
void let_other_operators_pass();

}  // namespace lockstep::device
