#include <cstdlib>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/io/object_store.h"

namespace lockstep::io {
namespace {

using lockstep::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::map<std::string, std::string> contents_of(const ByteStore& store) {
  std::map<std::string, std::string> contents;
  store.list(Sizes::wanted, [&](const Listed& listed) {
    if (listed.kind != Listed::Kind::file) return true;
    const std::string path(listed.path);
    contents[path] = store.read({path, listed.size}, 1 << 20);
    EXPECT_EQ(static_cast<int64_t>(contents[path].size()), listed.size);
    EXPECT_EQ(store.read({path}, 1 << 20), contents[path]);
    return true;
  });
  return contents;
}

template <class Work>
std::string failure(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string opening(const std::filesystem::path& path, const StoreOptions& options = {}) {
  return failure([&] { contents_of(*open_store(path.string(), options)); });
}

const std::map<std::string, std::string> kFiles{
    {"cat/1.jpg", "one"},        {"cat/deep/er/2.jpg", std::string(100000, 'x')},
    {"dog/ü &%\".jpg", "three"}, {"dog/empty", ""},
    {"notes.txt", "n"},          {std::string(150, 'l') + "/" + std::string(120, 'n'), "long"}};

void fill(const std::filesystem::path& folder) {
  for (const auto& [path, bytes] : kFiles) {
    make_folders((folder / path).parent_path());
    write_file_atomic(folder / path, bytes);
  }
}

void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

TEST(Stores, AFolderAndEveryKindOfTarGiveTheSame) {
  const TemporaryFolder folder;
  fill(folder.path() / "data");
  EXPECT_EQ(contents_of(*open_store((folder.path() / "data/").string())), kFiles);
  for (const char* format : {"gnu", "pax"}) {
    for (const char* ending : {".tar", ".tar.gz", ".tgz"}) {
      const std::string file = (folder.path() / (std::string(format) + ending)).string();
      shell(std::string("tar --format=") + format + " -caf '" + file + "' -C '" + folder.path().string() +
            "' data");
      EXPECT_EQ(contents_of(*open_store(file + "/data")), kFiles) << file;
      EXPECT_EQ(contents_of(*open_store(file)).size(), kFiles.size());
      EXPECT_THAT(opening(file + "/none"), HasSubstr("has no folder \"none\""));
    }
  }
}

TEST(Stores, WhatASinkWritesIsReadAgain) {
  const TemporaryFolder folder;
  for (const char* name : {"folder", "a.tar", "a.tar.gz"}) {
    const std::string where = (folder.path() / name).string();
    const auto sink = open_sink(where);
    for (const auto& [path, bytes] : kFiles) {
      const auto writer = sink->create(path, static_cast<int64_t>(bytes.size()));
      writer->append(bytes.substr(0, bytes.size() / 2));
      writer->append(bytes.substr(bytes.size() / 2));
      writer->finish();
    }
    sink->finish();
    EXPECT_EQ(contents_of(*open_store(where)), kFiles) << where;
  }
}

TEST(Stores, ListingsHaveTheTimesOfChanges) {
  const TemporaryFolder folder;
  fill(folder.path() / "data");
  shell("find '" + (folder.path() / "data").string() +
        "' -type f -exec touch -d @0 {} +");  // as archives have it that are the same each time they are made
  shell("tar -cf '" + (folder.path() / "a.tar").string() + "' -C '" + folder.path().string() + "' data");
  for (const char* where : {"data", "a.tar"}) {
    const auto store = open_store((folder.path() / where).string());
    store->list(Sizes::wanted, [](const Listed& listed) {
      EXPECT_EQ(listed.changed.has_value(), listed.kind == Listed::Kind::file) << listed.path;
      return true;
    });
  }
}

TEST(Stores, OtherBytesWithTheTimeOfThoseBeforeHaveChanged) {
  const TemporaryFolder folder;
  const auto time_of = [&](const std::string& where) {
    int64_t time = 0;
    open_store((folder.path() / where).string())->list(Sizes::wanted, [&](const Listed& listed) {
      if (listed.kind == Listed::Kind::file) time = *listed.changed;
      return true;
    });
    return time;
  };
  std::map<std::string, int64_t> first;
  for (const char* bytes : {"one", "two"}) {
    std::filesystem::create_directories(folder.path() / "data/a");
    std::ofstream(folder.path() / "data/a/b") << bytes;
    shell("tar -cf '" + (folder.path() / "x.tar").string() + "' -C '" + (folder.path() / "data").string() +
          "' a");
    shell("find '" + folder.path().string() + "' -type f -exec touch -d @1000 {} +");
    for (const char* where : {"data", "x.tar"}) {
      if (!first.contains(where)) first[where] = time_of(where);
      EXPECT_EQ(time_of(where) == first[where], std::string_view(bytes) == "one") << where;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // some file systems count in ticks
  }
}

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

TEST(Stores, AFileCutShortIsNotThere) {
  const TemporaryFolder folder;
  const auto sink = open_sink(folder.path().string());
  sink->create("a/b", 10)->append("half");
  EXPECT_TRUE(contents_of(*open_store(folder.path().string())).empty());
  EXPECT_THAT(failure([&] { sink->create("../outside", 1); }), HasSubstr("leads out"));
  { const auto archive = open_sink((folder.path() / "x.tar").string()); }
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder.path()))
    EXPECT_TRUE(item.is_directory()) << item.path();
}

TEST(Stores, WritersOfOneFileDoNotMix) {
  const TemporaryFolder folder;
  const std::string root = folder.path().string();
  const auto one = open_sink(root), two = open_sink(root);
  const auto first = one->create("a", 9), second = two->create("a", 3);
  first->append("one ");
  second->append("two");
  second->finish();
  EXPECT_EQ(contents_of(*open_store(root)), (std::map<std::string, std::string>{{"a", "two"}}));
  first->append("whole");
  first->finish();
  EXPECT_EQ(contents_of(*open_store(root)), (std::map<std::string, std::string>{{"a", "one whole"}}));
}

TEST(Stores, WhatAKilledCopyLeftIsNoDataAndGoes) {
  const TemporaryFolder folder;
  const std::string root = folder.path().string();
  const auto busy = open_sink(root);
  const auto writing = busy->create("a/2", 3);
  writing->append("two");
  const auto left = folder.write("a/.lockstep-part-0123456789abcdef", "half");
  const auto left_archive = folder.write(".lockstep-part-0123456789abcdef", "half");
  EXPECT_TRUE(contents_of(*open_store(root)).empty());
  const auto sink = open_sink(root);
  sink->create("a/1", 0)->finish();
  { const auto archive = open_sink(root + "/x.tar"); }
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(left_archive));
  writing->finish();
  EXPECT_EQ(contents_of(*open_store(root)),
            (std::map<std::string, std::string>{{"a/1", ""}, {"a/2", "two"}}));
}

TEST(Stores, WrittenFilesHaveThePermissionsThatTheUserGives) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  const auto sink = open_sink(folder.path().string());
  sink->create("a", 0)->finish();
  open_sink((folder.path() / "a.tar").string())->finish();
  ::umask(before);
  for (const char* name : {"a", "a.tar"})
    EXPECT_EQ(std::filesystem::status(folder.path() / name).permissions(), std::filesystem::perms{0640})
        << name;
}

TEST(Stores, LinksToFoldersOfLinksAreListedToABound) {
  const TemporaryFolder folder;
  constexpr int kFolders = 12;
  for (int i = 0; i < kFolders; ++i) {
    const std::filesystem::path one = folder.path() / "deep" / ("d" + std::to_string(i));
    std::filesystem::create_directories(one);
    for (const char* link : {"x", "y"}) {
      if (i + 1 < kFolders)
        std::filesystem::create_directory_symlink("../d" + std::to_string(i + 1), one / link);
    }
  }
  const std::string deep = (folder.path() / "deep").string();
  const auto listing = [&] {
    open_store(deep, {.most_revisits = 100})->list(Sizes::if_known, [](const Listed&) { return true; });
  };
  EXPECT_THAT(failure(listing), AllOf(HasSubstr("more than 100 times"), HasSubstr(deep + "/d0/x/")));

  folder.write("twice/cat/1.jpg", "one");
  for (const char* link : {"kitten", "tom"})
    std::filesystem::create_directory_symlink("cat", folder.path() / "twice" / link);
  EXPECT_EQ(contents_of(*open_store((folder.path() / "twice").string())),
            (std::map<std::string, std::string>{
                {"cat/1.jpg", "one"}, {"kitten/1.jpg", "one"}, {"tom/1.jpg", "one"}}));

  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  EXPECT_THAT(failure(listing), HasSubstr("stopped"));
}

TEST(Stores, PartsOfAFileAreRead) {
  const TemporaryFolder folder;
  fill(folder.path() / "data");
  shell("tar -cf '" + (folder.path() / "a.tar").string() + "' -C '" + folder.path().string() + "' data");
  shell("gzip -k '" + (folder.path() / "a.tar").string() + "'");
  for (const char* where : {"data", "a.tar/data", "a.tar.gz/data"}) {
    const auto store = open_store((folder.path() / where).string());
    std::string room(10, '-');
    EXPECT_EQ(store->read_at({"cat/1.jpg"}, 1, room), 2u) << where;
    EXPECT_EQ(room.substr(0, 3), "ne-");
    EXPECT_EQ(store->read_at({"cat/1.jpg"}, 7, room), 0u);
    EXPECT_EQ(store->read_at({"cat/deep/er/2.jpg"}, 99995, room), 5u);
    EXPECT_THAT(failure([&] { store->read({"cat/deep/er/2.jpg"}, 1000); }),
                HasSubstr("more than the 1000 B allowed"));
    EXPECT_THAT(failure([&] { store->read({"cat/none"}, 1000); }), HasSubstr("none"));
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

TEST(Addresses, NamesAreFreeOfOptionsAndSecrets) {
  EXPECT_EQ(public_name("s3://bucket/photos/?region=eu-west-1&scheme=http"), "s3://bucket/photos");
  EXPECT_EQ(public_name("s3://KEY:SECRET@bucket/photos"), "s3://bucket/photos");
  EXPECT_EQ(public_name("s3://KEY:SEC/RE/T@bucket/photos"), "s3://bucket/photos");
  EXPECT_EQ(public_name("photos/a@b?c"), "photos/a@b?c");
  EXPECT_FALSE(is_address("a/b://c"));
  EXPECT_TRUE(is_address("abfss://container@account.dfs.core.windows.net/x"));
}

TEST(Addresses, SecretsAreRefusedAndNotRepeated) {
  for (const char* address :
       {"s3://KEYID:hush@bucket/photos", "s3://KEYID:hu/hush/sh@bucket/photos", "s3://hush@bucket",
        "s3://bucket/a?secret_key=hush", "abfss://:hush@account/x", "abfss://c@account/x?client_secret=hush",
        "abfss://c@account.dfs.core.windows.net/x?sv=2022&sig=hush"}) {
    EXPECT_THAT(failure([&] { open_store(address); }),
                AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), Not(HasSubstr("hush")), Not(HasSubstr("KEYID"))))
        << address;
    EXPECT_THAT(failure([&] { open_sink(address); }), Not(HasSubstr("hush")));
  }
  EXPECT_NO_THROW(refuse_secrets("s3://bucket/a@b?region=x&endpoint_override=127.0.0.1:9000"));
  EXPECT_NO_THROW(
      refuse_secrets("abfss://container@account.dfs.core.windows.net/x?credential_kind=anonymous"));
  EXPECT_NO_THROW(refuse_secrets("gs://anonymous@bucket/x"));
}

TEST(Stores, KnowTheSizeOfOneFile) {
  const TemporaryFolder folder;
  fill(folder.path() / "data");
  std::filesystem::create_symlink("nowhere", folder.path() / "data/link");
  ASSERT_EQ(::mkfifo((folder.path() / "data/pipe").c_str(), 0600), 0);
  for (const char* ending : {".tar", ".tar.gz"})
    shell("tar -caf '" + (folder.path() / "a").string() + ending + "' -C '" + folder.path().string() +
          "' data");
  for (const char* where : {"data", "a.tar/data", "a.tar.gz/data"}) {
    const auto store = open_store((folder.path() / where).string());
    EXPECT_EQ(store->size_of("cat/deep/er/2.jpg"), 100000) << where;
    EXPECT_EQ(store->size_of("dog/empty"), 0) << where;
    for (const char* path : {"cat", "none", "cat/none", "cat/1.jpg/none"})
      EXPECT_EQ(store->size_of(path), std::nullopt) << where << path;
    EXPECT_THAT(failure([&] { store->size_of("pipe"); }), HasSubstr("not a file")) << where;
  }
  EXPECT_EQ(open_store("")->size_of((folder.path() / "data/notes.txt").string()), 1);
}

TEST(Addresses, AreTakenApartInFolderAndName) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(folder_and_name("a.ts"), Parts("", "a.ts"));
  EXPECT_EQ(folder_and_name("/a.ts"), Parts("/", "a.ts"));
  EXPECT_EQ(folder_and_name("x.tar/b/a.ts"), Parts("x.tar/b/", "a.ts"));
  EXPECT_EQ(folder_and_name("b/"), Parts("b/", ""));
  EXPECT_EQ(folder_and_name("a?b/c?d"), Parts("a?b/", "c?d"));
  EXPECT_EQ(folder_and_name("s3://bucket"), Parts("s3://bucket", ""));
  EXPECT_EQ(folder_and_name("s3://bucket?region=a/b"), Parts("s3://bucket?region=a/b", ""));
  EXPECT_EQ(folder_and_name("s3://bucket/a.ts?scheme=http&region=a/b"),
            Parts("s3://bucket/?scheme=http&region=a/b", "a.ts"));
  EXPECT_EQ(folder_and_name("s3://bucket/b/a.ts"), Parts("s3://bucket/b/", "a.ts"));
}

// A server that answers only from the n-th time on.
class AwayAtFirst : public ByteStore {
 public:
  explicit AwayAtFirst(int failures) : failures_(failures) {}
  const std::string& name() const override { return name_; }
  std::string kind() const override { return "test"; }
  void list(Sizes, const Visit&) const override { answer(); }
  std::optional<int64_t> size_of(std::string_view) const override { return answer(), 5; }
  std::string read(FileName, int64_t) const override { return answer(), "bytes"; }
  size_t read_at(FileName, int64_t, std::span<char>) const override { return answer(), 0; }
  int64_t parallel_reads() const override { return 8; }
  mutable int calls = 0;

 private:
  void answer() const {
    if (calls++ < failures_) throw Error(ErrorCode::communication, "away");
  }
  const int failures_;
  const std::string name_ = "test://x";
};

TEST(Patience, ReadsOutlastAServerThatComesBack) {
  const auto server = std::make_shared<AwayAtFirst>(2);
  EXPECT_EQ(with_patience(server)->read({"a"}, 10), "bytes");
  EXPECT_EQ(server->calls, 3);
}

TEST(Patience, HasAnEndAndAStop) {
  const auto gone = std::make_shared<AwayAtFirst>(1000);
  EXPECT_THAT(failure([&] { with_patience(gone, 0)->read({"a"}, 10); }),
              AllOf(HasSubstr("away"), HasSubstr("retried for")));
  EXPECT_THAT(failure([&] { with_patience(gone)->list(Sizes::wanted, {}); }), HasSubstr("away"));
  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  EXPECT_THAT(failure([&] { with_patience(gone)->read({"a"}, 10); }), HasSubstr("stopped while"));
}

}  // namespace
}  // namespace lockstep::io
