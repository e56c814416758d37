// Archives that are cut short, damaged or hostile.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/io/test_stores.h"

namespace lockstep::io {
namespace {

using namespace test;
using lockstep::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Stores, AnArchiveCutShortIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "data");
  for (const char* name : {"a", "b", "c"})
    std::ofstream(folder.path() / "data" / name) << std::string(700, name[0]);
  const std::filesystem::path archive = folder.path() / "x.tar";
  shell("tar -cf '" + archive.string() + "' -C '" + (folder.path() / "data").string() + "' a b c");
  constexpr int64_t kFile = 3 * 512;  // a header and two blocks
  for (const int64_t bytes : {10 * kFile, 3 * kFile + 1024, 3 * kFile + 512}) {
    std::filesystem::resize_file(archive, static_cast<uint64_t>(bytes));
    EXPECT_EQ(contents_of(*open_store(archive.string())).size(), 3U) << bytes;
  }
  for (const auto& [bytes, reason] :
       {std::pair{3 * kFile, "ends without its end mark after \"c\""},
        std::pair{2 * kFile, "ends without its end mark after \"b\""},
        std::pair{kFile + 512, "ends inside \"b\""}, std::pair{kFile - 100, "Truncated"}}) {
    std::filesystem::resize_file(archive, static_cast<uint64_t>(bytes));
    EXPECT_THAT(failure([&] { open_store(archive.string()); }), HasSubstr(reason)) << bytes;
  }
}

// A ustar header and its content.
std::string entry(const std::string& name, const std::string& content, char type = '0',
                  const std::string& size_text = "", const std::string& link = "") {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  char size[16];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, size_text.empty() ? size : size_text);
  put(136, "00000000000");
  put(148, "        ");
  put(156, std::string(1, type));
  put(157, link);
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  put(148, text);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

TEST(HostileArchives, AreRefusedOrHarmless) {
  const TemporaryFolder folder;
  const std::filesystem::path tar = folder.path() / "a.tar";
  const std::string end(1024, '\0');
  const auto opened = [&](const std::string& bytes) {
    write_file_atomic(tar, bytes);
    return opening(tar);
  };
  EXPECT_EQ(opened(entry("a", "1") + end), "");
  EXPECT_THAT(opened(entry("../../a", "1") + end), HasSubstr("leads out of it"));
  EXPECT_THAT(opened(entry("a", "1", '0', "77777777777") + end), HasSubstr("ends inside \"a\""));
  EXPECT_THAT(
      opened(entry("a", "1", '0', std::string("\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", 12)) + end),
      Not(""));
  EXPECT_THAT(opened(entry("a", std::string(2000, '1')).substr(0, 1500)), HasSubstr("ends inside"));
  EXPECT_THAT(opened("this is no archive at all, but some text"), HasSubstr("cannot read the archive"));

  // Absolute names lie below the root like all others, links are not followed, and the last of two with one
  // name holds.
  ASSERT_EQ(opened(entry("/etc/x", "1") + entry("out", "", '2', "", "/etc/passwd") +
                   entry("hard", "", '1', "", "/etc/x") + entry("lost", "", '1', "", "none") +
                   entry("./b", "old") + entry("b", "new") + end),
            "");
  const auto store = open_store(tar.string());
  EXPECT_EQ(contents_of(*store),
            (std::map<std::string, std::string>{{"etc/x", "1"}, {"hard", "1"}, {"b", "new"}}));
  EXPECT_THAT(failure([&] { store->read({"out"}, 100); }), HasSubstr("has no file"));
}

// The name of the next entry, or of what that links to ('K'), as GNU tar writes long ones.
std::string long_name(const std::string& name, char type = 'L') {
  return entry("././@LongLink", name + '\0', type);
}

TEST(HostileArchives, LongAndDeepNamesAreRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path tar = folder.path() / "deep.tar";
  const auto opened = [&](const std::string& bytes) {
    write_file_atomic(tar, bytes + std::string(1024, '\0'));
    return opening(tar);
  };
  const auto deep = [](int folders) {
    std::string name;
    for (int i = 0; i < folders; ++i) name += "a/";
    return name + "x.jpg";
  };
  ASSERT_EQ(opened(long_name(deep(63)) + entry("x", "1")), "");
  EXPECT_EQ(contents_of(*open_store(tar.string())), (std::map<std::string, std::string>{{deep(63), "1"}}));
  const auto is_refused = AllOf(HasSubstr("deep.tar"), HasSubstr("more than 4096 bytes or 64 parts"),
                                HasSubstr("begins with \"a/a/"));
  EXPECT_THAT(opened(long_name(deep(64)) + entry("x", "1")), is_refused);
  EXPECT_THAT(opened(long_name(deep(60'000)) + entry("x", "1")), is_refused);
  EXPECT_THAT(opened(entry("x", "1") + long_name(deep(60'000), 'K') + entry("y", "", '1', "", "x")),
              is_refused);
}

TEST(HostileArchives, NamesOfLinksCountAsMemory) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 20; ++i)
    bytes += long_name(std::string(4000, 'l'), 'K') + entry("h" + std::to_string(i), "", '1', "", "x");
  write_file_atomic(folder.path() / "a.tar", bytes + std::string(1024, '\0'));
  EXPECT_EQ(opening(folder.path() / "a.tar", {.most_memory = 100'000}), "");
  EXPECT_THAT(opening(folder.path() / "a.tar", {.most_memory = 50'000}), HasSubstr("more than the limit of"));
}

TEST(HostileArchives, ADamagedHeaderIsNotPassedOver) {
  const TemporaryFolder folder;
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) folder.write(std::string("data/") + name, name);
  const std::filesystem::path tar = folder.path() / "a.tar";
  shell("tar --format=gnu -cf '" + tar.string() + "' -C '" + (folder.path() / "data").string() +
        "' 1.jpg 2.jpg 3.jpg");
  std::string bytes = read_file(tar);
  bytes[1024 + 148] ^=
      1;  // the checksum of the second header, which follows one of the first and its content
  write_file_atomic(tar, bytes);
  EXPECT_THAT(opening(tar), AllOf(HasSubstr("cannot read the archive"), HasSubstr("a.tar")));
}

TEST(HostileArchives, AnArchiveThatUnpacksToTooMuchIsRefused) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.tar",
                    entry("a", std::string(4 << 20, '\0')) + std::string(1024, '\0'));
  shell("gzip '" + (folder.path() / "a.tar").string() + "'");
  EXPECT_EQ(failure([&] { open_store((folder.path() / "a.tar.gz").string(), {.most_memory = 8 << 20}); }),
            "");
  EXPECT_THAT(opening(folder.path() / "a.tar.gz", {.most_memory = 1 << 20}),
              AllOf(HasSubstr("more than the limit of 1.0 MB"), HasSubstr("lockstep copy")));
}

TEST(HostileArchives, DamageNeverCrashes) {
  const TemporaryFolder folder;
  const std::string good = entry("cat/1.jpg", "one") + entry("cat/2.jpg", std::string(700, 'x')) +
                           entry("dir", "", '5') + std::string(1024, '\0');
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    if (random.below(3) == 0) bytes.resize(random.below(bytes.size()));
    write_file_atomic(folder.path() / "a.tar", bytes);
    opening(folder.path() / "a.tar", {.most_memory = 1 << 20});
  }
}

}  // namespace
}  // namespace lockstep::io
