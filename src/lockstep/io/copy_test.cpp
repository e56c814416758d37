#include "lockstep/io/copy.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::io {
namespace {

using lockstep::test::TemporaryFolder;

class Copy : public testing::Test {
 protected:
  Copy() {
    for (int i = 0; i < 40; ++i)
      folder.write("from/" + std::to_string(i % 3) + "/" + std::to_string(i),
                   std::string(static_cast<size_t>(i) * 1000, static_cast<char>('a' + i % 26)));
  }

  std::string at(const std::string& name) const { return (folder.path() / name).string(); }
  CopyProgress copy(const std::string& from, const std::string& to, CopyOptions options = {}) {
    return copy_files(*open_store(at(from)), *open_sink(at(to)), options);
  }
  void expect_equal(const std::string& to) { EXPECT_EQ(copy("from", to).there_already, 40); }

  TemporaryFolder folder;
};

TEST_F(Copy, GoesThroughArchivesAndBack) {
  for (const char* archive : {"a.tar", "a.tar.gz"}) {
    const CopyProgress packed = copy("from", archive);
    EXPECT_EQ(packed.files, 40);
    EXPECT_EQ(packed.bytes, packed.all_bytes);
    EXPECT_EQ(packed.all_bytes, 780000);
    const std::string out = "out";
    copy(archive, out, {.verify = true});
    expect_equal(out);
    std::filesystem::remove_all(at(out));
  }
}

TEST_F(Copy, LeavesOutAFolder) {
  folder.write("from/.cache/a", "decoded");
  folder.write("from/1/.cache/b/c", "decoded");
  EXPECT_EQ(copy("from", "to", {.without = ".cache"}).files, 40);
  EXPECT_FALSE(std::filesystem::exists(at("to/.cache")));
  EXPECT_EQ(copy("from", "all.tar").files, 42);
}

TEST_F(Copy, CopiesOnlyWhatIsMissingOrDiffers) {
  copy("from", "to");
  std::filesystem::remove(at("to/0/3"));
  folder.write("to/1/4", std::string(4000, '!'));  // of the same size
  folder.write("to/2/5", "shorter");
  folder.write("to/more", "stays");
  const CopyProgress again = copy("from", "to");
  EXPECT_EQ(again.files, 40);
  EXPECT_EQ(again.there_already, 37);
  expect_equal("to");
  EXPECT_EQ(read_file(at("to/more")), "stays");
}

TEST_F(Copy, StoppedGoesOnAtTheNextCall) {
  std::stop_source stop;
  int64_t done = 0;
  const auto stop_after_ten = [&](const CopyProgress& progress) {
    done = progress.files;
    if (done == 10) stop.request_stop();
  };
  try {
    copy("from", "to", {.stop = stop.get_token(), .progress = stop_after_ten});
    FAIL() << "was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    EXPECT_THAT(error.what(), testing::HasSubstr("of 40 files were copied"));
  }
  const CopyProgress rest = copy("from", "to");
  EXPECT_EQ(rest.there_already, done);
  EXPECT_EQ(rest.files, 40);
  for (const auto& item : std::filesystem::recursive_directory_iterator(at("to")))
    EXPECT_FALSE(item.path().filename().string().starts_with('.')) << item.path();
}

TEST_F(Copy, NoNameOfAFileIsInTheWayOfAnother) {
  folder.write("pair/a", "one");
  folder.write("pair/a.part", "two");
  folder.write("precious", "stays");
  std::filesystem::create_directory(at("to"));
  std::filesystem::create_symlink(at("precious"), at("to/a.part"));
  EXPECT_EQ(copy("pair", "to").files, 2);
  EXPECT_EQ(read_file(at("to/a")), "one");
  EXPECT_EQ(read_file(at("to/a.part")), "two");
  EXPECT_EQ(read_file(at("precious")), "stays");
}

TEST_F(Copy, LeavesOutWhatIsNoFile) {
  folder.write("odd/cat/1", "one");
  std::filesystem::create_symlink("nowhere", at("odd/cat/2"));
  std::filesystem::create_symlink("1", at("odd/cat/3"));
  ASSERT_EQ(::mkfifo(at("odd/pipe").c_str(), 0600), 0);
  for (const char* to : {"to", "to.tar"}) {
    const CopyProgress done = copy("odd", to);
    EXPECT_EQ(done.files, 2) << to;
    EXPECT_EQ(done.left_out, 2) << to;
  }
  EXPECT_EQ(read_file(at("to/cat/3")), "one");
  EXPECT_FALSE(std::filesystem::exists(at("to/pipe")));
}

// Knows its file's name only.
class OfUnknownSize : public ByteStore {
 public:
  const std::string& name() const override { return name_; }
  std::string kind() const override { return "test"; }
  void list(Sizes, const Visit& visit) const override { visit({.path = "a"}); }
  std::optional<int64_t> size_of(std::string_view) const override { return {}; }
  std::string read(FileName, int64_t) const override { return ""; }
  size_t read_at(FileName, int64_t, std::span<char>) const override { return 0; }
  int64_t parallel_reads() const override { return 0; }

 private:
  const std::string name_ = "test://x";
};

TEST_F(Copy, AFileOfUnknownSizeIsNamed) {
  try {
    copy_files(OfUnknownSize(), *open_sink(at("to")));
    FAIL() << "was copied";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("test://x/a"));
  }
}

TEST_F(Copy, NothingToCopyIsAnError) {
  std::filesystem::create_directory(at("nothing"));
  EXPECT_THROW(copy("nothing", "to"), Error);
  EXPECT_THROW(copy("none", "to"), Error);
}

}  // namespace
}  // namespace lockstep::io
