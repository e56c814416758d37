// Changes of layer graphs: a built-in network with a few options of its own, and a new head for other
// classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// Whether `pattern` covers `name`, e.g. "features.3.squeeze.weight": it matches the whole name, or the name
/// of a group that it is in. * stands for any text, dots included.
bool covers(const std::string& pattern, const std::string& name);

/// {"base": "squeezenet", "change": {"classifier.1": {"padding": 1}}, "input": {...}} as a layer graph of its
/// own; any other JSON as it is. Throws invalid_option for an unknown base or layer.
Json with_changes_made(const Json& json);

/// What the weights of a layer graph expect of images, its "input": options of lockstep train by name. An
/// empty object where it says nothing.
Json expected_input(const Network& network);

/// A network with a head of its own, and what of trained weights still fits it.
struct Surgery {
  Network network;
  std::vector<std::string> fresh;    ///< layers that start anew
  std::vector<std::string> dropped;  ///< layers of the old network that are gone
};

/// The network for input.classes: its last layer with learnables and a number of outputs (conv2d, linear)
/// starts anew with as many as there are classes. With drop_layers above 0 instead, so many layers at the end
/// of the evaluation are gone, and after the rest come a linear layer, and before it, where that is an
/// image, global average pooling: "head.linear". Throws invalid_option for C++ modules, and where what is
/// left has no single output.
Surgery with_new_head(const Network& network, const NetworkInput& input, int64_t drop_layers = 0);

/// The name of the layer that with_new_head makes anew.
std::string head_of(const Network& network);

}  // namespace lockstep::nn
