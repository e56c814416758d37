// Ranks that have opened different data: the first difference is named.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/data/sequences.h"
#include "lockstep/train/custom/shard_sums.h"
#include "lockstep/train/custom/test_loops.h"

namespace lockstep::train {
namespace {

using namespace test;
using ::testing::HasSubstr;

// Images in files, listed by their paths below a root.
class Files : public Halves {
 public:
  Files(std::string root, std::vector<std::string> paths)
      : Halves(static_cast<int64_t>(paths.size())), root_(std::move(root)), paths_(std::move(paths)) {}
  std::string source(int64_t index) const override {
    return root_ + "/" + paths_.at(static_cast<size_t>(index));
  }
  uint64_t listing_hash() const override {
    uint64_t hash = 0;
    for (const std::string& path : paths_) hash = hash_of(path, hash);
    return hash;
  }

 private:
  std::string root_;
  std::vector<std::string> paths_;
};

TEST(CustomLoop, OtherDataIsNamedBeforeTheFirstStep) {
  const std::string error = error_on_workers(
      3, [](pool::Worker& worker) { build(worker, net(), worker.rank() == 2 ? halves(40, 8) : halves(41)); });
  const std::string host = " (" + host_name() + ")";
  EXPECT_THAT(error, HasSubstr("the ranks have different data: sample 40 is \"half 40\" on rank 0" + host +
                               ", and rank 2" + host + " has only 40 samples"));
  EXPECT_EQ(error_on_workers(2, [](pool::Worker& worker) { check_same_dataset(worker.comm(), halves(41)); }),
            "");
  const std::string alike = error_on_workers(2, [](pool::Worker& worker) {
    check_same_dataset(worker.comm(), halves(41, static_cast<uint64_t>(worker.rank())));
  });
  EXPECT_THAT(alike, HasSubstr("the samples on rank 0" + host + " and on rank 1" + host +
                               " are alike, but of other classes or chosen from other data"));
}

// Each rank has the files in another folder, which does not count as a difference.
TEST(CustomLoop, TheFirstFileThatDiffersIsNamedWithItsPathOnBothRanks) {
  const auto error_with = [](const std::string& changed) {
    return error_on_workers(3, [changed](pool::Worker& worker) {
      std::vector<std::string> paths;
      for (int64_t i = 0; i < 30; ++i) paths.push_back((i < 15 ? "a/" : "b/") + std::to_string(i) + ".png");
      if (worker.rank() == 1 && !changed.empty()) paths[17] = paths[20] = changed;
      check_same_dataset(worker.comm(), data::Dataset(std::make_shared<Files>(
                                            "/disk" + std::to_string(worker.rank()) + "/data", paths)));
    });
  };
  const std::string host = " (" + host_name() + ")";
  EXPECT_EQ(error_with(""), "");
  EXPECT_THAT(error_with("b/other.png"), HasSubstr("sample 17 is \"/disk0/data/b/17.png\" on rank 0" + host +
                                                   " and \"/disk1/data/b/other.png\" on rank 1" + host));
}

TEST(CustomLoop, TheFirstSequenceWithOtherValuesIsNamed) {
  const std::string error = error_on_workers(2, [](pool::Worker& worker) {
    std::vector<data::Sequence> sequences(5, data::Sequence{.values = {1, 2}, .label = 0});
    if (worker.rank() == 1) sequences[3].values[1] = 3;
    check_same_dataset(worker.comm(), data::make_sequences(1, {"low", "high"}, sequences));
  });
  EXPECT_THAT(error, HasSubstr("sample 3 is \"sequence 3\" of class 0 \"low\" on rank 0 ("));
  EXPECT_THAT(error, HasSubstr(") and \"sequence 3\" of class 0 \"low\" with other values on rank 1 ("));
}

}  // namespace
}  // namespace lockstep::train
