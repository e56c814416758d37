// Data that lies in something else than a folder.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/survey.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/io/copy.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;
using test::bytes_of;
using testing::AllOf;
using testing::HasSubstr;

void pack(const std::filesystem::path& folder, const std::filesystem::path& archive) {
  const auto sink = io::open_sink(archive.string());
  io::copy_files(*io::open_store(folder.string()), *sink);
}

TEST(ImageArchive, IsTheFolderThatWasPacked) {
  const TemporaryFolder folder;
  for (const char* name : {"in/b/cat/2.png", "in/a/cat/1.png", "in/a/dog/3.png", "in/b/cat/.hidden.png",
                           "in/.git/x.png", "in/__MACOSX/cat/1.png", "in/README"}) {
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

std::string store_failure(const std::filesystem::path& path, const SourceOptions& options = {}) {
  try {
    open_source(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Everything that decides weights, and each sample's bytes.
void expect_same(const Source& packed, const Source& original, const std::string& where) {
  const std::string kind = original.kind.substr(0, original.kind.find(','));  // without what is not used
  EXPECT_TRUE(packed.kind.starts_with(kind + ", tar archive")) << packed.kind << " " << where;
  EXPECT_EQ(packed.dataset.classes(), original.dataset.classes()) << where;
  EXPECT_EQ(packed.dataset.store().listing_hash(), original.dataset.store().listing_hash()) << where;
  ASSERT_EQ(packed.dataset.size(), original.dataset.size()) << where;
  const bool numbers = original.dataset.store().kind() == SampleKind::sequence;
  for (int64_t i = 0; i < original.dataset.size(); ++i) {
    ASSERT_EQ(packed.dataset.store().label(i), original.dataset.store().label(i)) << where;
    ASSERT_EQ(packed.dataset.store().image_size(i), original.dataset.store().image_size(i)) << where;
    if (numbers) {
      ASSERT_EQ(read_values(packed.dataset.store(), i), read_values(original.dataset.store(), i)) << where;
    } else {
      ASSERT_EQ(packed.dataset.store().read(i).pixels, original.dataset.store().read(i).pixels) << where;
    }
  }
}

std::string cifar_file(int64_t label_bytes, const std::vector<int>& labels) {
  std::string bytes;
  for (const int label : labels)
    bytes += std::string(static_cast<size_t>(label_bytes - 1), '\x01') + static_cast<char>(label) +
             std::string(3072, static_cast<char>('a' + label % 20));
  return bytes;
}

std::string idx_file(const std::vector<uint32_t>& lengths, const std::string& body) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(lengths.size())};
  for (const uint32_t length : lengths) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(length >> shift));
  }
  return bytes + body;
}

void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

// What is "in/WHERE" on the disk and "x.tar/WHERE" in an archive.
const std::vector<std::string> kPlaces{"idx",
                                       "idx/",
                                       "idx/t10k-images-idx3-ubyte",
                                       "cifar10",
                                       "cifar10/test_batch.bin",
                                       "cifar10/other.bin",
                                       "cifar100",
                                       "ts/a.ts",
                                       "csv",
                                       "images"};

void write_every_kind(const TemporaryFolder& folder) {
  folder.write("in/idx/train-images-idx3-ubyte", idx_file({3, 2, 2}, "aaaabbbbcccc"));
  folder.write("in/idx/train-labels-idx1-ubyte", idx_file({3}, {4, 4, 9}));
  folder.write("in/idx/t10k-images-idx3-ubyte", idx_file({2, 2, 2}, "ddddeeee"));
  folder.write("in/idx/t10k-labels-idx1-ubyte", idx_file({2}, {7, 3}));
  shell("gzip '" + (folder.path() / "in/idx/train-images-idx3-ubyte").string() + "' '" +
        (folder.path() / "in/idx/t10k-labels-idx1-ubyte").string() + "'");
  folder.write("in/cifar10/data_batch_2.bin", cifar_file(1, {0}));
  folder.write("in/cifar10/data_batch_1.bin", cifar_file(1, {3, 9}));
  folder.write("in/cifar10/test_batch.bin", cifar_file(1, {5}));
  folder.write("in/cifar10/other.bin", cifar_file(1, {6, 2}));
  folder.write("in/cifar10/batches.meta.txt",
               "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  folder.write("in/cifar100/train.bin", cifar_file(2, {99, 0}));
  folder.write("in/ts/a.ts", "@classLabel true left right\n@data\n1,2,3:4,5,6:right\n7:8:left\n");
  folder.write("in/csv/b-1/x/2.csv", "x,y\n1,2\n3,4\n");
  folder.write("in/csv/b/x/1.csv", "5,6\n");
  folder.write("in/csv/y/.3.csv", "hidden");
  folder.write("in/csv/y/3.csv", "7,8\n");
  for (const char* name : {"in/images/cat/1.png", "in/images/dog/2.png"})
    folder.write(name, bytes_of(test::kGrey8));
}

TEST(EveryKind, IsReadFromAnArchiveAsFromAFolder) {
  const TemporaryFolder folder;
  write_every_kind(folder);
  for (const char* name : {"x.tar", "x.tar.gz"}) {
    pack(folder.path() / "in", folder.path() / name);
    for (const std::string& where : kPlaces) {
      const Source original = open_source((folder.path() / "in" / where).string()),
                   packed = open_source((folder.path() / name / where).string());
      expect_same(packed, original, where);
      const auto below = [&](const Dataset& dataset, const std::string& root) {
        return std::filesystem::path(dataset.store().source(0))
            .lexically_relative(folder.path() / root)
            .string();
      };
      EXPECT_EQ(below(packed.dataset, name), below(original.dataset, "in"));
    }
  }
  pack(folder.path() / "in/idx", folder.path() / "idx.tar");
  expect_same(open_source(folder.path() / "idx.tar"), open_source(folder.path() / "in/idx"), "idx.tar");
}

TEST(EveryKind, OfRealDataIsReadFromAnArchiveToo) {
  const std::filesystem::path data =
      test::test_data("mnist/t10k-images-idx3-ubyte.gz").parent_path().parent_path();
  const TemporaryFolder folder;
  for (const char* name : {"mnist.tar", "mnist.tar.gz"}) {
    const std::filesystem::path archive = folder.path() / name;
    shell("tar -caf '" + archive.string() + "' -C '" + data.string() + "' mnist sequences");
    expect_same(open_source(archive / "mnist"), open_source(data / "mnist"), name);
    expect_same(open_source(archive / "mnist/t10k-images-idx3-ubyte.gz"),
                open_source(data / "mnist/t10k-images-idx3-ubyte.gz"), name);
    expect_same(open_source(archive / "sequences/JapaneseVowels_TRAIN.ts"),
                open_source(data / "sequences/JapaneseVowels_TRAIN.ts"), name);
  }
}

TEST(EveryKind, ThatIsBrokenInAnArchiveIsNamedAsTheUserWould) {
  const TemporaryFolder folder;
  const std::filesystem::path archive = folder.path() / "x.tar";
  const auto said = [&](const std::string& name, const std::string& bytes, const std::string& where) {
    folder.write("in/" + name, bytes);
    pack(folder.path() / "in", archive);
    return store_failure(archive / where);
  };
  const std::string images = "idx/train-images-idx3-ubyte", labels = "idx/train-labels-idx1-ubyte",
                    start = archive.string() + "/";
  EXPECT_THAT(said(images, idx_file({3, 2, 2}, "aaaabbbbcccc"), "idx"),
              HasSubstr("open \"" + start + labels + "\": No such file"));
  EXPECT_THAT(store_failure(archive / images), HasSubstr("open \"" + start + labels + "\": No such file"));
  EXPECT_THAT(said(labels, idx_file({2}, {4, 9}), "idx"),
              HasSubstr("cannot read \"" + start + labels + "\": it has 2 labels, but there are 3 images"));
  EXPECT_THAT(said(images, idx_file({0xffffffff, 10000, 10000}, "aaaa"), "idx"),
              AllOf(HasSubstr(start + images), HasSubstr("more than the file can contain")));
  EXPECT_THAT(said(images, idx_file({3, 2, 2}, "aaaabbbbcc"), "idx"),
              HasSubstr("promises 12 bytes after itself, but it ends at byte 26"));
  EXPECT_THAT(said("cifar/data_batch_1.bin", cifar_file(1, {3, 9}).substr(0, 5000), "cifar"),
              HasSubstr("\"" + start + "cifar/data_batch_1.bin\": it ends at byte 5000, inside record 2"));
  EXPECT_THAT(
      said("cifar/batches.meta.txt", "cat\n", "cifar"),
      HasSubstr("\"" + start + "cifar/batches.meta.txt\": it has 1 names, but the dataset has 10 classes"));
  EXPECT_THAT(said("cifar/batches.meta.txt", "0\n1\n2\n3\n4\n5\n6\n7\n3\n9\n", "cifar"),
              HasSubstr("batches.meta.txt\": it has the name \"3\" for two classes"));
  EXPECT_THAT(said("a.ts", "@classLabel true a b\n@data\n1:a\nx:b\n", "a.ts"),
              HasSubstr("cannot read \"" + start + "a.ts\", line 4: \"x\" is not a finite number"));
  EXPECT_THAT(said("csv/a/1.csv", "1,2\n3\n", "csv"),
              HasSubstr("cannot read \"" + start + "csv/a/1.csv\", line 2"));
  EXPECT_THAT(store_failure(archive / "none.ts"), HasSubstr("has no folder \"none.ts\""));
  EXPECT_THAT(store_failure(archive / "idx/t10k-images-idx3-ubyte"),
              HasSubstr("has no folder \"idx/t10k-images-idx3-ubyte\""));

  const std::string packed = read_file(test::test_data("mnist/t10k-images-idx3-ubyte.gz"));
  EXPECT_THAT(said("gz/t10k-images-idx3-ubyte.gz", packed.substr(0, 100000), "gz"),
              AllOf(HasSubstr(start + "gz/t10k-images-idx3-ubyte.gz"), HasSubstr("but it ends at byte")));
  EXPECT_THAT(said("gz/t10k-images-idx3-ubyte.gz",
                   packed.substr(0, 100000) + std::string(1000, 'x') + packed.substr(101000), "gz"),
              AllOf(HasSubstr("cannot unpack \"" + start + "gz/t10k-images-idx3-ubyte.gz\""),
                    HasSubstr("the gzip stream is damaged")));
}

TEST(EveryKind, AFolderOrALinkNamedAsAFileIsNone) {
  const TemporaryFolder folder;
  for (const char* name : {"in/a.ts/cat/1.png", "in/a.ts/dog/2.png", "in/idx/train-images-idx3-ubyte/x"})
    folder.write(name, bytes_of(test::kGrey8));
  std::filesystem::create_directory(folder.path() / "in/link");
  std::filesystem::create_symlink("elsewhere", folder.path() / "in/link/train-images-idx3-ubyte");
  shell("tar -cf '" + (folder.path() / "x.tar").string() + "' -C '" + (folder.path() / "in").string() +
        "' .");
  for (const char* root : {"in", "x.tar"}) {
    EXPECT_EQ(open_source(folder.path() / root / "a.ts").dataset.size(), 2) << root;
    EXPECT_THAT(store_failure(folder.path() / root / "idx"),
                HasSubstr("train-images-idx3-ubyte\": not a file"))
        << root;
  }
  EXPECT_THAT(store_failure(folder.path() / "x.tar/link"),
              HasSubstr("train-images-idx3-ubyte\": not a file"));
  EXPECT_THAT(store_failure(folder.path() / "in/link"), HasSubstr("train-images-idx3-ubyte\": No such file"));
}

TEST(EveryKind, DamagedInAnArchiveNeverCrashes) {
  const TemporaryFolder folder;
  write_every_kind(folder);
  pack(folder.path() / "in", folder.path() / "good.tar");
  const std::string good = read_file(folder.path() / "good.tar");
  Random random(6);
  int opened = 0;
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    for (int i = 0; i < 4; ++i) bad[random.below(bad.size())] = static_cast<char>(random.next());
    if (random.below(3) == 0) bad.resize(random.below(bad.size()));
    const auto archive = folder.write("x.tar", bad);
    for (const std::string& where : kPlaces) opened += store_failure((archive / where).string()).empty();
  }
  EXPECT_GT(opened, 100);
}

TEST(DataFiles, BesideEachOtherAreReadWithoutTheFoldersBesideThem) {
  const TemporaryFolder folder;
  write_every_kind(folder);
  const std::filesystem::path idx = folder.path() / "in/idx";
  const uint64_t hash = open_source(idx).dataset.store().listing_hash();
  std::filesystem::create_directory(idx / "below");
  std::filesystem::create_directory_symlink(idx, idx / "below/loop");  // a listing of which is refused
  EXPECT_EQ(open_source(idx).dataset.store().listing_hash(), hash);
  EXPECT_THAT(store_failure(folder.path() / "in"), HasSubstr("a link to a folder that contains it"));
}

TEST(DataFiles, AreNamedAsTheyWereGiven) {
  const TemporaryFolder folder;
  write_every_kind(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path() / "in/idx");
  const std::string first = open_source("t10k-images-idx3-ubyte").dataset.store().source(0),
                    beside = open_source(".").dataset.store().source(0);
  std::filesystem::remove("t10k-labels-idx1-ubyte.gz");
  const std::string missing = store_failure("t10k-images-idx3-ubyte");
  std::filesystem::current_path(before);
  EXPECT_EQ(first, "t10k-images-idx3-ubyte#0");
  EXPECT_EQ(beside, "./train-images-idx3-ubyte.gz#0");
  EXPECT_THAT(missing, HasSubstr("cannot open \"t10k-labels-idx1-ubyte\": No such file"));
  EXPECT_THAT(store_failure(""), HasSubstr("cannot open \"\": No such file"));
}

// The images of another dataset behind a wait, as over a network. Counts how many wait at once.
class Far : public Datastore {
 public:
  explicit Far(Dataset near) : near_(std::move(near)) {}
  int64_t size() const override { return near_.size(); }
  const std::vector<std::string>& classes() const override { return near_.classes(); }
  int64_t label(int64_t index) const override { return near_.store().label(index); }
  std::string source(int64_t index) const override { return near_.store().source(index); }
  ImageSize image_size(int64_t index) const override { return near_.store().image_size(index); }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const int now = ++waiting_;
    for (int most = most_; now > most && !most_.compare_exchange_weak(most, now);) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --waiting_;
    near_.store().read_to(index, sink);
  }
  uint64_t listing_hash() const override { return near_.store().listing_hash(); }
  int64_t parallel_reads() const override { return 12; }
  int most() const { return most_; }

 private:
  const Dataset near_;
  mutable std::atomic<int> waiting_{0}, most_{0};
};

TEST(FarImages, AreReadManyAtOnceAndInOrder) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i)
    folder.write((i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".png", bytes_of(test::kGrey8));
  const Dataset near = open_source(folder.path()).dataset;
  const auto far = std::make_shared<Far>(near);
  const QueueOptions options{.mini_batch_size = 16, .shards = 4, .order = {.seed = 3}, .epochs = 2};
  std::vector<int64_t> expected, found;
  for (const auto& [dataset, labels] : {std::pair(near, &expected), std::pair(Dataset(far), &found)}) {
    for (const Batch& batch : MiniBatchQueue(dataset, Share{}, options)) {
      for (const Shard& shard : batch.shards)
        labels->insert(labels->end(), shard.target.data_ptr<int64_t>(),
                       shard.target.data_ptr<int64_t>() + shard.count);
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 80u);
  EXPECT_GT(far->most(), 4);
  EXPECT_LE(far->most(), 12);
}

}  // namespace
}  // namespace lockstep::data
