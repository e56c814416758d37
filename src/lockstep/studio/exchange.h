// Networks that leave studio and come into it: exported files, and files on this machine that the designer
// opens.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/studio/routes.h"
#include "lockstep/studio/training.h"

namespace lockstep::studio {

/// The words of lockstep export for {"id": run} or {"network": drawing, "name"}, with {"word": name of the
/// file, whose end says what is written, "options"}. The file is written to exports/ below the first root.
/// Throws invalid_option for a name that is a path.
std::vector<std::string> export_words(const Json& body, const Parts& parts, Files files);

/// The words of lockstep network show for {"network": drawing, "name", "options"}, with JSON as its output.
std::vector<std::string> network_show_words(const Json& body, const Setup& setup, Files files);

/// A file that was exported, to be downloaded. Throws invalid_option for a name that is a path, and
/// not_found.
Response exported_file(const std::string& name, const Setup& setup);

/// What a file on this machine has for the designer: a layer graph (.json) gives {"layers"} as drawing_of();
/// weights (safetensors, or of torch.save) give {"weights": path, "tensors": {name: shape}, "network": the
/// built-in network that they fit, or ""}; an ONNX file gives both, imported to networks/ below the first
/// root by lockstep import. Throws what is wrong with it.
Json open_file(const std::string& path, const Parts& parts);

}  // namespace lockstep::studio
