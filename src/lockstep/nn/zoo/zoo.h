// The built-in networks as layer graphs. Sizes come from the input; a JSON file with the same layers gives
// the same network.
#pragma once

#include "lockstep/base/json.h"

namespace lockstep::nn {

/// torchvision's alexnet, with its names and initial weights. Krizhevsky 2014, "One weird trick".
Json alexnet();

/// Krizhevsky et al. 2012 as in Caffe's bvlc_alexnet and MATLAB's alexnet: grouped convolutions, local
/// response normalization after the ReLU. For images of 227x227, the size that published weights need.
Json alexnet_2012();

/// For sequences: three convolutions over time with layer norms, their mean over time, and a linear layer.
Json conv_classifier();

/// Three convolutions with batch norm and one linear layer; named as a torch.nn.Sequential.
Json digits_cnn();

/// DL4J's LeNet: two convolutions with max-pooling and no activation, two linear layers.
Json lenet();

/// For sequences: an LSTM with a hidden state of 100, and a linear layer after its last time step.
Json lstm_classifier();

/// Linear layers only: 256, 128, classes.
Json mlp();

/// torchvision's mobilenet_v2, with its names and initial weights. Sandler et al. 2018.
Json mobilenet_v2();

/// For small colour images: a stem of 3x3 without a pool, and nine layers with weights, at half the width (32
/// filters in the stem) of David Page's network for CIFAR-10 ("How to train your ResNet", 2018).
Json resnet9();

/// The same with half as many filters: a quarter of the work.
Json resnet9_small();

/// torchvision's resnet18, with its names and initial weights. He et al. 2015, "Deep Residual Learning for
/// Image Recognition".
Json resnet18();

/// torchvision's resnet50, with its names and initial weights: a block's stride is in its 3x3 convolution.
Json resnet50();

/// torchvision's squeezenet1_0, with its names and initial weights. Iandola et al. 2016.
Json squeezenet();

/// torchvision's squeezenet1_1, with its names and initial weights.
Json squeezenet1_1();

/// torchvision's vgg16, with its names and initial weights. Simonyan and Zisserman 2014.
Json vgg16();

}  // namespace lockstep::nn
