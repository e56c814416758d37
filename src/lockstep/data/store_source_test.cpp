// Folders of images that lie in something else than a folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/survey.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_pictures.h"
#include "lockstep/io/copy.h"

namespace lockstep::data {
namespace {

using test::bytes_of;
using test::TemporaryFolder;

void pack(const std::filesystem::path& folder, const std::filesystem::path& archive) {
  const auto sink = io::open_sink(archive.string());
  io::copy_files(*io::open_store(folder.string()), *sink);
}

TEST(ImageArchive, IsTheFolderThatWasPacked) {
  const TemporaryFolder folder;
  for (const char* name : {"in/b/cat/2.png", "in/a/cat/1.png", "in/a/dog/3.png", "in/b/cat/.hidden.png", "in/.git/x.png", "in/__MACOSX/cat/1.png", "in/README"}) {
    folder.write(name, bytes_of(test::kGrey8));
  }
  folder.write("in/a/dog/4.jpg", bytes_of(test::kJpegColour));
  const Dataset original = open_source(folder.path() / "in").dataset;
  for (const char* name : {"x.tar", "x.tar.gz"}) {
    pack(folder.path() / "in", folder.path() / name);
    const Source packed = open_source(folder.path() / name);
    EXPECT_EQ(packed.kind, "image folder, tar archive");
    EXPECT_EQ(packed.dataset.store().listing_hash(), original.store().listing_hash());
    EXPECT_EQ(packed.dataset.classes(), original.classes());
    ASSERT_EQ(packed.dataset.size(), 4);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(packed.dataset.store().read(i).pixels, original.store().read(i).pixels);
      EXPECT_EQ(packed.dataset.store().image_size(i), original.store().image_size(i));
    }
    EXPECT_EQ(packed.dataset.store().source(0), (folder.path() / name / "a/cat/1.png").string());
    EXPECT_EQ(open_source(folder.path() / name / "a").dataset.size(), 3);
    EXPECT_NE(packed.dataset.store().identity(), original.store().identity());
  }
}

// The pictures of another dataset behind a wait, as over a network. Counts how many wait at once.
class Far : public Datastore {
 public:
  explicit Far(Dataset near) : near_(std::move(near)) {}
  int64_t size() const override { return near_.size(); }
  const std::vector<std::string>& classes() const override { return near_.classes(); }
  int64_t label(int64_t index) const override { return near_.store().label(index); }
  std::string source(int64_t index) const override { return near_.store().source(index); }
  ImageSize image_size(int64_t index) const override { return near_.store().image_size(index); }
  void read_to(int64_t index, const Placement& placement) const override {
    const int now = ++waiting_;
    for (int most = most_; now > most && !most_.compare_exchange_weak(most, now);) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --waiting_;
    near_.store().read_to(index, placement);
  }
  uint64_t listing_hash() const override { return near_.store().listing_hash(); }
  int64_t parallel_reads() const override { return 12; }
  int most() const { return most_; }

 private:
  const Dataset near_;
  mutable std::atomic<int> waiting_{0}, most_{0};
};

TEST(FarPictures, AreReadManyAtOnceAndInOrder) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) folder.write((i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".png", bytes_of(test::kGrey8));
  const Dataset near = open_source(folder.path()).dataset;
  const auto far = std::make_shared<Far>(near);
  const QueueOptions options{.mini_batch_size = 16, .shards = 4, .order = {.seed = 3}, .epochs = 2};
  std::vector<int64_t> expected, found;
  for (const auto& [dataset, labels] : {std::pair(near, &expected), std::pair(Dataset(far), &found)}) {
    for (const Batch& batch : MiniBatchQueue(dataset, Share{}, options)) {
      for (const Shard& shard : batch.shards) labels->insert(labels->end(), shard.target.data_ptr<int64_t>(), shard.target.data_ptr<int64_t>() + shard.count);
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 80u);
  EXPECT_GT(far->most(), 4);
  EXPECT_LE(far->most(), 12);
}

}  // namespace
}  // namespace lockstep::data
