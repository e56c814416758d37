// A built model: the order of its input's dimensions, frozen layers, factors of learning rates.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"

namespace lockstep::train {
namespace {

using namespace test;

TEST(BuiltModel, LabelledInputIsPermutedAndChecked) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), {1, 6, 8, 2});
    const at::Tensor images = at::rand({5, 1, 6, 8});
    const at::Tensor logits = model.predict(images);
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({5, 2}));
    EXPECT_EQ(model.forward(images.permute({2, 3, 1, 0}), "SSCB").sizes(), at::IntArrayRef({5, 2}));
    EXPECT_TRUE(at::equal(model.predict(images), logits));  // a training pass has not moved the statistics
    EXPECT_THROW(model.forward(images.permute({3, 2, 1, 0}), "SSCB"), Error);  // height and width changed
    EXPECT_THROW(model.forward(images, "BCS"), Error);
    return 0;
  });
}

TEST(BuiltModel, PredictionsUseWeightsAndStatisticsThatWerePutBack) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(20));
    const at::Tensor images = at::rand({5, 1, 6, 6});
    nn::NamedTensors first = model.state();
    for (auto& [name, tensor] : first) tensor = tensor.detach().clone();
    const at::Tensor logits = model.predict(images);
    const double loss = validate(model, halves(20), worker.comm()).loss;
    Sgdm sgdm(model.parameters());
    for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), {}))
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
    EXPECT_FALSE(at::equal(model.predict(images), logits));
    const at::NoGradGuard no_grad;
    nn::NamedTensors own = model.state();
    for (size_t i = 0; i < own.size(); ++i) own[i].second.copy_(first[i].second);
    EXPECT_TRUE(at::equal(model.predict(images), logits));
    EXPECT_EQ(validate(model, halves(20), worker.comm()).loss, loss);
    return 0;
  });
}

TEST(BuiltModel, FrozenLayersAndFactorsHold) {
  on_workers(1, [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(20));
    model.freeze({"convolution"});
    EXPECT_THROW(model.freeze({"konvolution"}), Error);
    const auto before =
        sgdm_update(model.parameters(), model.parameters(), {}, {.learning_rate = 0}).parameters;  // copies
    Sgdm sgdm(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.1},
              learn_rate_factors(model, "head", 1, 0));
    for (const auto& batch : data::MiniBatchQueue(halves(20), worker.share(), {}))
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
    const auto after = model.parameters();
    const auto names = model.parameter_names();
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_EQ(!at::equal(after[i], before[i]), names[i].starts_with("head.")) << names[i];
    update(model, after, [](const std::string& name, const at::Tensor& parameter, const at::Tensor&) {
      return name == "head.bias" ? at::zeros_like(parameter) : parameter;
    });
    EXPECT_EQ(model.parameters().back().abs().sum().item<float>(), 0);
    return 0;
  });
}

}  // namespace
}  // namespace lockstep::train
