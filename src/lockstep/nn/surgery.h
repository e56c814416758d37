// Changes layer graphs: a built-in network with some changed options, or a new head for other classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// Whether `pattern` covers `name`, for example "features.3.squeeze.weight": it matches the whole name, or
/// the name of a group that contains it. * matches any text, including dots.
bool covers(const std::string& pattern, const std::string& name);

/// Expands {"base": "squeezenet", "change": {"classifier.1": {"padding": 1}}, "input": {...}} to a complete
/// layer graph; any other JSON is returned unchanged. Throws invalid_option for an unknown base or layer.
Json with_changes_made(const Json& json);

/// The "input" of a layer graph: what its weights expect of images, as options of lockstep train by name.
/// Empty if it has none.
Json expected_input(const Network& network);

/// 64 and 96 out of "64x96", each from 1 to 99999. Nothing if it is no such text.
std::optional<std::pair<int64_t, int64_t>> two_sizes(const std::string& text);

/// `input` with the size and channels of the images that `expected` names, which is such an "input". Throws
/// invalid_option for an image size that is not HxW.
NetworkInput sized_as_expected(const Json& expected, NetworkInput input);

/// A network with a new head, and the parts of trained weights that still fit it.
struct Surgery {
  Network network;
  std::vector<std::string> fresh;    ///< layers that are initialized again
  std::vector<std::string> dropped;  ///< layers of the old network that were removed
};

/// The network for input.classes. Without drop_layers, its last layer with learnables and a number of outputs
/// (conv2d, linear) is initialized again with one output per class. With drop_layers above 0, this many
/// layers are removed from the end of the evaluation order, and a linear layer "head.linear" is added; if the
/// remaining output is an image, global average pooling comes before it. Throws invalid_option for C++
/// modules, and if the remaining layers do not have a single output.
Surgery with_new_head(const Network& network, const NetworkInput& input, int64_t drop_layers = 0);

/// The network as it is, for weights that were trained in another one: the layers that the patterns cover
/// (see covers) are initialized again, and layers that only `trained` has are dropped. Throws invalid_option
/// for a pattern that covers no layer with weights.
Surgery with_new_layers(const Network& network, const NetworkInput& input,
                        const std::vector<std::string>& patterns, const NamedTensors& trained);

/// The name of the layer that with_new_head initializes again.
std::string head_of(const Network& network);

}  // namespace lockstep::nn
