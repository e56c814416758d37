// Our side of safetensors_test.py:
//
//   networks write FOLDER NAME...
//   For each built-in network NAME, writes NAME.safetensors with its weights, and NAME.example.safetensors
//   with images and scores.
//
//   networks scores NAME CLASSES WEIGHTS IMAGES OUT
//   IMAGES has "images" [b,C,H,W]. OUT gets "scores" of the network NAME with WEIGHTS.
//
//   networks copy A B
//   Reads A and writes its tensors and metadata to B.
#include <cstdio>
#include <filesystem>
#include <string>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"

namespace {

using namespace lockstep;

nn::NetworkInput input_of(const std::string& network) {
  if (network == "digits_cnn" || network == "lenet" || network == "mlp") return {1, 28, 28, 10};
  return {3, 70, 64, 12};
}

void write_network(const std::string& name, const std::filesystem::path& folder) {
  const nn::NetworkInput input = input_of(name);
  const nn::Instance instance = nn::find_network(name).make(input);
  for (const auto& [tensor_name, tensor] : nn::state_of(*instance.module)) {
    if (tensor_name.ends_with("running_mean")) tensor.normal_(0, 0.1);
    if (tensor_name.ends_with("running_var")) tensor.uniform_(0.5, 1.5);
  }
  instance.module->eval();
  const at::Tensor images = torch::rand({4, input.channels, input.height, input.width});
  nn::write_safetensors(folder / (name + ".safetensors"), nn::state_of(*instance.module));
  nn::write_safetensors(folder / (name + ".example.safetensors"),
                        {{"images", images}, {"scores", instance.forward(images)}});
}

// Computed as in lockstep predict, with this project's kernels.
void write_scores(char** arguments) {
  const at::Tensor images = nn::read_safetensors(arguments[5]).tensors.at(0).second;
  const nn::Instance instance =
      nn::find_network(arguments[2])
          .make({images.size(1), images.size(2), images.size(3), std::stoll(arguments[3])});
  nn::load_state(*instance.module, nn::read_weights(arguments[4]), arguments[4]);
  instance.module->eval();
  const kernels::DirectKernels kernels(true);
  nn::write_safetensors(arguments[6], {{"scores", instance.forward(images).contiguous()}});
}

}  // namespace

int main(int argc, char** argv) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  try {
    if (argc > 3 && std::string(argv[1]) == "write") {
      for (int i = 3; i < argc; ++i) write_network(argv[i], argv[2]);
    } else if (argc == 7 && std::string(argv[1]) == "scores") {
      write_scores(argv);
    } else if (argc == 4 && std::string(argv[1]) == "copy") {
      const nn::SafetensorsFile file = nn::read_safetensors(argv[2]);
      nn::write_safetensors(argv[3], file.tensors, file.metadata);
    } else {
      std::fprintf(stderr,
                   "usage: %s write FOLDER NAME... | scores NAME CLASSES WEIGHTS IMAGES OUT | copy A B\n",
                   argv[0]);
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
