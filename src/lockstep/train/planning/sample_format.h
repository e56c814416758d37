// The size and channels to which images are brought: --image-size, --color, --resize-to and --decode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/open_data.h"
#include "lockstep/train/planning/this_machine.h"

namespace lockstep::train {

/// A format, and why it has this size and these channels; for sequences without reasons.
struct FormatChoice {
  data::ImageFormat format;
  std::string size_reason = {};
  std::string color_reason = {};
  std::string color_note =
      {};  ///< for the user, if images that were not looked at may have colours; or empty
};

/// For a dataset of images: by the options, otherwise by a survey of the images' sizes. Opens the decoder of
/// --decode gpu. Throws invalid_option, device, and what reading an image header throws.
///   has_own_network  a program gave the network, which may want as many channels as the files have
FormatChoice choose_image_format(const data::Dataset& train, const Options& options,
                                 const ThisMachine& machine, bool has_own_network);

/// For the images that an iterator returns (MiniBatchStream::outline).
FormatChoice stream_format(const data::Dataset& outline);

/// {height, width} of --resize-to; empty: not given. Throws invalid_option if the network's input cannot be
/// cut out of images of this size, and for random-crop without larger images.
///   data  its format and augmentation are read
std::vector<int64_t> resolve_resize_to(const Options& options, const DataPlan& data);

/// If data.resize_to is given: replaces the datasets by the centres of their images, except those of which
/// the queue cuts parts (queue_cut). Returns the reason for the plan.
std::string cut_out_centres(Datasets& sets, const DataPlan& data);

/// The format in which training images are kept: larger than data.format where the queue cuts parts out.
data::ImageFormat training_format(const DataPlan& data);

}  // namespace lockstep::train
