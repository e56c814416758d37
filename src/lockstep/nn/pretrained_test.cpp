// Published weights from a program. Downloads are in tests/flow/weights_test.py.
#include "lockstep/nn/pretrained.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/nn/trained_weights.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;

TEST(Pretrained, EachNetworkIsBuiltIn) {
  for (const TrainedWeights& weights : trained_weights()) {
    const auto& all = builtin_networks();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const BuiltinNetwork& network) {
      return network.name == weights.network && network.input.height == weights.crop &&
             network.input.classes == weights.classes;
    })) << weights.network;
    EXPECT_EQ(weights.published().sha256.size(), 8U);
    EXPECT_THAT(weights.address(), HasSubstr("/" + std::string(weights.file)));
  }
}

TEST(Pretrained, ErrorsSayWhatIsMissing) {
  const lockstep::test::TemporaryFolder folder;
  ::setenv("LOCKSTEP_CACHE", folder.path().c_str(), 1);
  try {
    pretrained("alexnet", {.mirror = "http://no.such.host.invalid"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::communication);
    EXPECT_THAT(error.message(), HasSubstr("http://no.such.host.invalid/alexnet-owt-7be5be79.pth"));
  }
  EXPECT_THROW(pretrained("lenet"), Error);
  EXPECT_EQ(recognise_weights(folder.write("other.pth", "other")), nullptr);
}

}  // namespace
}  // namespace lockstep::nn
