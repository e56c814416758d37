#include "lockstep/nn/builtin.h"

#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/convolution.h"
#include "lockstep/nn/layers/linear.h"
#include "lockstep/nn/layers/merge.h"
#include "lockstep/nn/layers/normalization.h"
#include "lockstep/nn/layers/over_time.h"
#include "lockstep/nn/layers/pooling.h"
#include "lockstep/nn/layers/recurrent.h"
#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types{
      layer_type("conv2d", plan_conv2d),
      layer_type("conv1d", plan_conv1d),
      layer_type("linear", plan_linear),
      layer_type("flatten", plan_flatten),
      layer_type("batch_norm", plan_batch_norm),
      layer_type("layer_norm", plan_layer_norm),
      layer_type("local_response_norm", plan_local_response_norm),
      layer_type("relu", plan_relu),
      layer_type("relu6", plan_relu6),
      layer_type("leaky_relu", plan_leaky_relu),
      layer_type("tanh", plan_tanh),
      layer_type("sigmoid", plan_sigmoid),
      layer_type("gelu", plan_gelu),
      layer_type("softmax", plan_softmax),
      layer_type("dropout", plan_dropout),
      layer_type("max_pool", plan_max_pool),
      layer_type("average_pool", plan_average_pool),
      layer_type("adaptive_average_pool", plan_adaptive_average_pool),
      layer_type("global_average_pool", plan_global_average_pool),
      layer_type("global_max_pool", plan_global_max_pool),
      layer_type("lstm", plan_lstm),
      layer_type("bilstm", plan_bilstm),
      layer_type("gru", plan_gru),
      layer_type("add", plan_add),
      layer_type("concatenate", plan_concatenate),
  };
  return types;
}

const std::vector<BuiltinNetwork>& builtin_networks() {
  constexpr NetworkInput kImageNet{3, 224, 224, 1000};
  static const std::vector<BuiltinNetwork> networks{
      {"alexnet", alexnet, kImageNet},
      {"alexnet_2012", alexnet_2012, {3, 227, 227, 1000}},
      {"conv_classifier", conv_classifier, {12, 1, 1, 9, 29}},
      {"digits_cnn", digits_cnn, {1, 28, 28, 10}},
      {"lenet", lenet, {1, 28, 28, 10}},
      {"lstm_classifier", lstm_classifier, {12, 1, 1, 9, 29}},
      {"mlp", mlp, {1, 28, 28, 10}},
      {"mobilenet_v2", mobilenet_v2, kImageNet},
      {"resnet9", resnet9, {3, 32, 32, 10}},
      {"resnet9_small", resnet9_small, {3, 32, 32, 10}},
      {"resnet18", resnet18, kImageNet},
      {"resnet50", resnet50, kImageNet},
      {"squeezenet", squeezenet, kImageNet},
      {"squeezenet1_1", squeezenet1_1, kImageNet},
      {"vgg16", vgg16, kImageNet},
  };
  return networks;
}

}  // namespace lockstep::nn
