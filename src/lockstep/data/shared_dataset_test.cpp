#include "lockstep/data/shared_dataset.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"

namespace lockstep::data {
namespace {

void expect_same(const Datastore& there, const Datastore& here) {
  ASSERT_EQ(there.size(), here.size());
  EXPECT_EQ(there.classes(), here.classes());
  EXPECT_EQ(there.listing_hash(), here.listing_hash());
  EXPECT_EQ(there.identity(), here.identity());
  EXPECT_EQ(there.kind(), here.kind());
  EXPECT_EQ(there.labels_time_steps(), here.labels_time_steps());
  EXPECT_EQ(there.in_memory(), here.in_memory());
  EXPECT_EQ(there.slots(), here.slots());
  for (int64_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there.label(i), here.label(i));
    EXPECT_EQ(there.source(i), here.source(i));
    EXPECT_EQ(there.image_size(i), here.image_size(i));
    EXPECT_EQ(there.continues(i), here.continues(i));
    EXPECT_THAT(std::vector<int64_t>(there.time_step_labels(i).begin(), there.time_step_labels(i).end()),
                testing::ElementsAreArray(here.time_step_labels(i)));
    if (here.kind() == SampleKind::sequence) {
      EXPECT_EQ(read_values(there, i), read_values(here, i));
    } else {
      EXPECT_EQ(there.read(i).pixels, here.read(i).pixels);
    }
  }
}

void expect_same_over_there(const Dataset& dataset) {
  const SharedDataset shared(dataset);
  expect_same(open_shared(shared.path()).store(), dataset.store());
  expect_same(open_shared_bytes(shared.bytes()).store(), dataset.store());
}

void write_image(const std::filesystem::path& path, char level) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "P5 2 2 255\n" << std::string(4, level);
}

TEST(SharedDataset, AFolderIsOpenedAgainWithTheSamplesThatWereChosen) {
  const lockstep::test::TemporaryFolder folder;
  for (int i = 0; i < 5; ++i)
    write_image(folder.path() / (i % 2 == 0 ? "even" : "odd") / (std::to_string(i) + ".pgm"),
                static_cast<char>('a' + i));
  const ImageFolder all(folder.path());
  expect_same_over_there(all);
  const auto [first, second] = all.shuffle(7).split(0.5);
  expect_same_over_there(first);
  expect_same_over_there(second);
}

TEST(SharedDataset, AFolderThatChangedIsRefused) {
  const lockstep::test::TemporaryFolder folder;
  for (const char* name : {"a", "b"}) write_image(folder.path() / name / "0.pgm", 'x');
  const SharedDataset shared(ImageFolder(folder.path()));
  write_image(folder.path() / "b" / "1.pgm", 'x');
  try {
    open_shared(shared.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has changed since the client opened it"));
  }
}

TEST(SharedDataset, SamplesInMemoryAreShared) {
  expect_same_over_there(
      make_sequences(2, {"a", "b"}, {{.values = {1, 2, 3, 4}, .label = 0}, {.values = {5, 6}, .label = 1}}));
  const Dataset streams = make_sequences(1, {"a", "b"},
                                         {{.values = {1, 2, 3}, .time_step_labels = {0, 1, -1}},
                                          {.values = {4, 5}, .time_step_labels = {1, 1}}});
  expect_same_over_there(streams);
  expect_same_over_there(stream_pieces(streams, {.time_steps = 2, .slots = 2}));
  expect_same_over_there(streams.subset({1}));
}

TEST(SharedDataset, NoneIsNone) {
  const SharedDataset shared{Dataset()};
  EXPECT_EQ(shared.path(), "");
  EXPECT_TRUE(open_shared("").empty());
  EXPECT_TRUE(open_shared_bytes(shared.bytes()).empty());
  EXPECT_THROW(open_shared_bytes("GET / HTTP/1.1\r\n\r\n"), Error);
}

}  // namespace
}  // namespace lockstep::data
