// Checks of options against each other, before the data are opened.
#pragma once

#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// Throws invalid_option for options of --exchange, --precision, --sample-order and --scale-with-workers that
/// cannot be combined, and for options that would have no effect.
void check_combinations(const Options& options);

/// Throws invalid_option for options that are of one whole run, in a training of several calls of fit.
void check_options_of_several_fits(const Options& options);

/// Throws invalid_option for options that need samples to be read more than once, or in another form than
/// the iterator of a TrainingRequest::stream returns them.
///   asked         --color as the user gave it; weights or an earlier plan may have filled it in
///   gives_floats  the iterator returns images as float32
void check_options_of_stream(const Options& options, Color asked, bool gives_floats);

/// Throws invalid_option for options of sequences that cannot be combined.
void check_options_of_sequences(const Options& options);

}  // namespace lockstep::train
