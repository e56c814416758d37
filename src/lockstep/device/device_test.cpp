#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/utils.h>

#include "lockstep/device/gpu.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/isa.h"
#include "lockstep/device/kernels.h"
#include "lockstep/device/random_scope.h"

namespace lockstep::device {

const Kernels<float>& plain_kernels(float);
const Kernels<float>& avx2_kernels(float);
const Kernels<float>& avx512_kernels(float);

namespace {

std::vector<float> dropped_and_drawn(uint64_t seed) {
  RandomScope scope(c10::kCPU, seed);
  torch::nn::Dropout dropout(0.5);
  at::Tensor values = at::cat({dropout(at::ones({64})), at::rand({8}), at::randn({8}),
                               at::randperm(8).to(at::kFloat), at::rand_like(at::ones({3}))});
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

TEST(RandomScope, DropoutRepeatsOnAnyThread) {
  const auto expected = dropped_and_drawn(7);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<std::vector<float>> drawn(4);
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < drawn.size(); ++i)
        threads.emplace_back([&, i] { drawn[i] = dropped_and_drawn(i == 3 ? 8 : 7); });
    }
    EXPECT_EQ(drawn[0], expected);
    EXPECT_EQ(drawn[1], expected);
    EXPECT_EQ(drawn[2], expected);
    EXPECT_NE(drawn[3], expected);
  }
}

TEST(RandomScope, OutsideAScopeTheProcessGeneratorCounts) {
  torch::manual_seed(1);
  const auto first = at::rand({4});
  { const auto inside = dropped_and_drawn(7); }
  torch::manual_seed(1);
  EXPECT_TRUE(at::equal(first, at::rand({4})));
}

TEST(RandomScope, GradientsFlowThroughDropout) {
  RandomScope scope(c10::kCPU, 3);
  torch::nn::Dropout dropout(0.5);
  auto input = at::ones({100}).requires_grad_(true);
  auto output = dropout(input);
  output.sum().backward();
  EXPECT_TRUE(at::equal(input.grad(), output.detach()));
}

TEST(Kernels, EveryInstructionSetGivesTheSameBits) {
  for (const int64_t count : {1, 7, 255, 4096, 5001}) {
    const at::Tensor gradient = at::randn({count}), weight = at::randn({count}), state = at::rand({count});
    for (const UpdateKind kind :
         {UpdateKind::sgdm, UpdateKind::adam, UpdateKind::adamw, UpdateKind::rmsprop}) {
      const UpdateRule rule{.kind = kind,
                            .learning_rate = 0.1,
                            .momentum = 0.9,
                            .nesterov = true,
                            .beta1 = 0.9,
                            .beta2 = 0.99,
                            .alpha = 0.9,
                            .epsilon = 1e-8,
                            .weight_decay = 0.01,
                            .gradient_scale = 0.7,
                            .bias_correction1 = 0.5,
                            .bias_correction2 = 0.6};
      const auto run = [&](const Kernels<float>& set) {
        at::Tensor w = weight.clone(), first = state.clone(), second = state.clone();
        set.update(rule, gradient.data_ptr<float>(), w.data_ptr<float>(), first.data_ptr<float>(),
                   second.data_ptr<float>(), count);
        return std::pair(at::cat({w, first, second}), set.sum_of_squares(w.data_ptr<float>(), count));
      };
      const auto plain = run(plain_kernels(0.f));
      const auto check = [&](const char* unit, bool has, const Kernels<float>& set) {
        if (!has) GTEST_SKIP() << "this processor has no " << unit;
        const auto other = run(set);
        EXPECT_TRUE(at::equal(plain.first, other.first)) << unit;
        EXPECT_EQ(plain.second, other.second) << unit;
      };
      check("AVX2", __builtin_cpu_supports("avx2"), avx2_kernels(0.f));
      check("AVX-512", __builtin_cpu_supports("avx512bw"), avx512_kernels(0.f));
    }
  }
}

TEST(Isa, TheMatrixUnitIsOneOfTheUnitsListed) {
  const std::vector<std::string> units = inspect().vector_units;
  EXPECT_LE(has_matrix_unit(), std::find(units.begin(), units.end(), "amx_bf16") != units.end());
  EXPECT_LE(has_matrix_unit(), vector_unit() == VectorUnit::avx512);
}

TEST(Inventory, CoresAreAllowedOnes) {
  const Inventory inventory = inspect();
  EXPECT_GE(inventory.cores, 1);
  EXPECT_LE(inventory.cores, inventory.cores_online);
  EXPECT_GT(inventory.memory_bytes, 0);
  EXPECT_EQ(inventory.gpus.empty(), !inventory.gpu_note.empty());
}

TEST(Gpu, APlugInThatIsNotThereIsSaid) {
  const GpuState state = open_gpu_library("/no/such/liblockstep_cuda.so");
  EXPECT_TRUE(state.gpus.empty());
  EXPECT_EQ(state.library, nullptr);
  EXPECT_EQ(state.note, "the CUDA plug-in liblockstep_cuda.so is not beside the program");
  EXPECT_NE(state.hint.find("CUDA 13 toolkit"), std::string::npos);
}

TEST(Gpu, APlugInThatCannotBeOpenedGivesTheLoadersWords) {
  const auto file =
      std::filesystem::temp_directory_path() / ("lockstep_" + std::to_string(::getpid()) + ".so");
  std::ofstream(file) << "not a library";
  const GpuState state = open_gpu_library(file);
  std::filesystem::remove(file);
  EXPECT_TRUE(state.gpus.empty());
  EXPECT_NE(state.note.find("cannot be opened: " + file.string()), std::string::npos) << state.note;
  EXPECT_EQ(open_gpu_library("libz.so.1").note,
            "the CUDA plug-in \"libz.so.1\" is of another version than the program");
}

// With or without a driver and NVIDIA's libraries: GPUs, or a note and a hint.
TEST(Gpu, TheBuiltPlugInAnswersOnAnyMachine) {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "liblockstep_cuda.so";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the CUDA plug-in was not built";
  const GpuState state = open_gpu_library(file);
  EXPECT_EQ(state.gpus.empty(), !state.note.empty());
  EXPECT_EQ(state.gpus.empty(), !state.hint.empty());
  EXPECT_EQ(state.gpus.empty(), state.library == nullptr);
  RecordProperty("note", state.note);
}

}  // namespace
}  // namespace lockstep::device
