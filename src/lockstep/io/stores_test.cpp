// Folders and archives of every kind: what is written, listed and read.
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/io/test_stores.h"

namespace lockstep::io {
namespace {

using namespace test;
using lockstep::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

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

}  // namespace
}  // namespace lockstep::io
