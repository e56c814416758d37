#include "lockstep/base/share.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Share, PartsCoverTheWholeInOrderAndOwnersAgree) {
  for (int64_t total : {0, 1, 7, 8, 128}) {
    for (int64_t parts : {1, 2, 3, 8, 11}) {
      int64_t at = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range range = part_of(total, parts, i);
        EXPECT_EQ(range.begin, at);
        for (int64_t item = range.begin; item < range.end; ++item) EXPECT_EQ(owner_of(total, parts, item), i);
        at = range.end;
      }
      EXPECT_EQ(at, total);
    }
  }
  for (const Deal& deal : std::vector<Deal>{
           {1, 3}, {3, 6}, {2, 4, {2, 1}}, {3, 3, {1, 1000, 1}}, {1, 3, {12, 12, 8}}, {2, 4, {1, 3, 2, 2}}}) {
    for (const int64_t total : {0, 1, 7, 32, 65536}) {
      int64_t at = 0;
      for (int64_t worker = 0; worker < deal.workers; ++worker) {
        const Range range = deal.of_worker(total, worker);
        EXPECT_EQ(range.begin, at);
        if (range.count() > 0) {
          EXPECT_EQ(deal.worker_of(total, range.begin), worker);
          EXPECT_EQ(deal.rank_of(total, range.end - 1), worker / (deal.workers / deal.ranks));
        }
        at = range.end;
      }
      EXPECT_EQ(at, total);
    }
  }
  EXPECT_EQ((Deal{2, 2, {2, 1}}.of_rank(32, 1)), (Range{21, 32}));
  EXPECT_EQ((Deal{2, 2, {1, 1}}.of_rank(7, 0)), (Range{0, 4})) << "as without loads";
  EXPECT_EQ((Deal{1, 3, {12, 12, 8}}.of_worker(32, 1)), (Range{12, 24})) << "loads of workers";
  EXPECT_EQ((Deal{2, 4, {1, 3, 2, 2}}.of_rank(16, 1)), (Range{8, 16}));
  EXPECT_EQ((Deal{2, /*workers=*/2, {1, 3, 2, 2}}.of_rank(16, 0)), (Range{0, 8})) << "where only ranks count";
  EXPECT_EQ(used_shards(8, 128), 8);
  EXPECT_EQ(used_shards(8, 5), 2);
  EXPECT_EQ(used_shards(8, 1), 1);
}

}  // namespace
}  // namespace lockstep
