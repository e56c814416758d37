// The built-in networks as layer graphs. Sizes come from the input; each is what a JSON file with the same layers would be.
#pragma once

#include "lockstep/base/json.h"

namespace lockstep::nn {

/// Three convolutions with batch norm and one linear layer; named as a torch.nn.Sequential.
Json digits_cnn();

/// DL4J's LeNet: two convolutions with max-pooling and no activation, two linear layers.
Json lenet();

/// For sequences: an LSTM of 100 hidden units, a linear layer after its last time step.
Json lstm_classifier();

/// Linear layers only: 256, 128, classes.
Json mlp();

/// torchvision's resnet18, with its names and its start. He et al. 2015, "Deep Residual Learning for Image Recognition".
Json resnet18();

/// torchvision's squeezenet1_0, with its names and its start. Iandola et al. 2016.
Json squeezenet();

}  // namespace lockstep::nn
