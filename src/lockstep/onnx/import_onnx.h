// Reads networks from ONNX files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/onnx/trained_network.h"

namespace lockstep::onnx {

struct ImportOptions {
  std::string name = "the file";      ///< for messages and as the network's name
  std::filesystem::path folder = {};  ///< where files of external data are; empty: they are refused
  int64_t height = 0;                 ///< of the images, in pixels, if the file leaves it open
  int64_t width = 0;
};

struct Imported {
  TrainedNetwork trained;
  std::vector<std::string> notes = {};  ///< what differs from the file, as sentences
};

/// A layer graph and weights from an untrusted file of any operator set from 7 on. What torch.onnx.export and
/// to_onnx write for the layers that Lockstep has is recognised. A file of to_onnx gives the layer graph and
/// the bits of the weights that it was made from. Throws corrupt_data for a damaged file, and invalid_option
/// that names the nodes that have no layer, with their operators and the reasons. Nothing outside of
/// options.folder is read.
Imported import_onnx(std::string_view bytes, const ImportOptions& options = {});

}  // namespace lockstep::onnx
