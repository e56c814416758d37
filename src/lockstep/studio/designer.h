// What the designer asks while somebody draws: the kinds of layers with their options, and what is known of a
// graph that may not be complete.
#pragma once

#include <string>

#include "lockstep/base/json.h"

namespace lockstep::studio {

/// [{"type", "group", "options": [{"name", "type", "help", "default", "choices", "least", "greatest"}]}]
Json layer_palette();

/// [{"name", "input"}] of the built-in networks.
Json network_list();

/// A built-in network as the designer draws it: {"name", "layers", "input"}, each layer with its name and its
/// inputs. Throws invalid_option.
Json network_drawing(const std::string& name);

/// The built-in network with these layers, options and connections; empty if there is none. Throws as
/// drawing_of does.
std::string built_in_name(const Json& network);

/// Any network file as the designer draws it, with "input" if the file names what its images are. Throws
/// invalid_option naming the layer and the problem.
Json drawing_of(const Json& network);

/// drawing: {"layers": [{"name", "type", "inputs", options...}], "input": {"channels", "height", "width",
/// "classes", "time_steps"}}. Gives {"layers": {name: {"shape", "detail", "learnables", "state",
/// "activations", "flop", "tensors": {name: shape}, "error", "hint"}}, "totals", "complete", "problem":
/// {"layer", "message", "hint", "fixes"}}. A layer whose inputs are not known yet has no shape. The first
/// layer that does not fit has fixes, each tried: {"text", "edits"}. Throws invalid_option for what is no
/// drawing.
Json check_drawing(const Json& drawing);

}  // namespace lockstep::studio
