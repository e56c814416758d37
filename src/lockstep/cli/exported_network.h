// The network that `lockstep export` writes.
#pragma once

#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/onnx/trained_network.h"

namespace lockstep::cli {

enum class NeedsWeights { no, yes };

/// The network of a run folder or of a weights file in one, or a built-in network or FILE.json, by the call's
/// first word. The layer graph says what it expects of its input ("input"); with NeedsWeights::no, that of a
/// network without a run or weights of images only what its file says and the call gives. With
/// NeedsWeights::yes, a network without --weights gets initial weights, and standard error says so.
onnx::TrainedNetwork open_exported(const Call& call, Console& console, NeedsWeights needs);

}  // namespace lockstep::cli
