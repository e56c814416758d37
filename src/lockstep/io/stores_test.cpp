#include <cstdlib>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/io/cloud.h"

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
    {"cat/1.jpg", "one"}, {"cat/deep/er/2.jpg", std::string(100000, 'x')}, {"dog/ü &%\".jpg", "three"}, {"dog/empty", ""}, {"notes.txt", "n"}, {std::string(150, 'l') + "/" + std::string(120, 'n'), "long"}};

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
      shell(std::string("tar --format=") + format + " -caf '" + file + "' -C '" + folder.path().string() + "' data");
      EXPECT_EQ(contents_of(*open_store(file + "/data")), kFiles) << file;
      EXPECT_EQ(contents_of(*open_store(file)).size(), kFiles.size());
      EXPECT_THAT(opening(file + "/none"), HasSubstr("holds no folder \"none\""));
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
  shell("find '" + (folder.path() / "data").string() + "' -type f -exec touch -d @0 {} +");  // as archives have it that are the same each time they are made
  shell("tar -cf '" + (folder.path() / "a.tar").string() + "' -C '" + folder.path().string() + "' data");
  for (const char* where : {"data", "a.tar"}) {
    const auto store = open_store((folder.path() / where).string());
    store->list(Sizes::wanted, [](const Listed& listed) {
      EXPECT_EQ(listed.changed.has_value(), listed.kind == Listed::Kind::file) << listed.path;
      return true;
    });
  }
}

TEST(Stores, AFileCutShortIsNotThere) {
  const TemporaryFolder folder;
  const auto sink = open_sink(folder.path().string());
  sink->create("a/b", 10)->append("half");
  EXPECT_TRUE(contents_of(*open_store(folder.path().string())).empty());
  EXPECT_THAT(failure([&] { sink->create("../outside", 1); }), HasSubstr("leads out"));
  { const auto archive = open_sink((folder.path() / "x.tar").string()); }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.tar"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.tar.part"));
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
    EXPECT_THAT(failure([&] { store->read({"cat/deep/er/2.jpg"}, 1000); }), HasSubstr("more than the 1000 B allowed"));
    EXPECT_THAT(failure([&] { store->read({"cat/none"}, 1000); }), HasSubstr("none"));
  }
}

// A ustar header and its content.
std::string entry(const std::string& name, const std::string& content, char type = '0', const std::string& size_text = "", const std::string& link = "") {
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
  EXPECT_THAT(opened(entry("a", "1", '0', std::string("\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", 12)) + end), Not(""));
  EXPECT_THAT(opened(entry("a", std::string(2000, '1')).substr(0, 1500)), HasSubstr("ends inside"));
  EXPECT_THAT(opened("this is no archive at all, but some text"), HasSubstr("cannot read the archive"));

  // Absolute names lie below the root like all others, links are not followed, and the last of two with one name holds.
  ASSERT_EQ(opened(entry("/etc/x", "1") + entry("out", "", '2', "", "/etc/passwd") + entry("hard", "", '1', "", "/etc/x") + entry("lost", "", '1', "", "none") + entry("./b", "old") + entry("b", "new") + end), "");
  const auto store = open_store(tar.string());
  EXPECT_EQ(contents_of(*store), (std::map<std::string, std::string>{{"etc/x", "1"}, {"hard", "1"}, {"b", "new"}}));
  EXPECT_THAT(failure([&] { store->read({"out"}, 100); }), HasSubstr("holds no file"));
}

TEST(HostileArchives, AnArchiveThatUnpacksToTooMuchIsRefused) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.tar", entry("a", std::string(4 << 20, '\0')) + std::string(1024, '\0'));
  shell("gzip '" + (folder.path() / "a.tar").string() + "'");
  EXPECT_EQ(failure([&] { open_store((folder.path() / "a.tar.gz").string(), {.most_memory = 8 << 20}); }), "");
  EXPECT_THAT(opening(folder.path() / "a.tar.gz", {.most_memory = 1 << 20}), AllOf(HasSubstr("takes more than 1.0 MB unpacked"), HasSubstr("lockstep copy")));
}

TEST(HostileArchives, DamageNeverCrashes) {
  const TemporaryFolder folder;
  const std::string good = entry("cat/1.jpg", "one") + entry("cat/2.jpg", std::string(700, 'x')) + entry("dir", "", '5') + std::string(1024, '\0');
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
  EXPECT_EQ(public_name("photos/a@b?c"), "photos/a@b?c");
  EXPECT_FALSE(is_address("a/b://c"));
  EXPECT_TRUE(is_address("abfss://container@account.dfs.core.windows.net/x"));
}

TEST(Addresses, SecretsAreRefusedAndNotRepeated) {
  for (const char* address : {"s3://KEYID:hush@bucket/photos", "s3://hush@bucket", "s3://bucket/a?secret_key=hush", "abfss://:hush@account/x", "abfss://c@account/x?client_secret=hush"}) {
    EXPECT_THAT(failure([&] { open_store(address); }), AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), Not(HasSubstr("hush")), Not(HasSubstr("KEYID")))) << address;
    EXPECT_THAT(failure([&] { open_sink(address); }), Not(HasSubstr("hush")));
  }
  EXPECT_NO_THROW(refuse_secrets("s3://bucket/a@b?region=x&endpoint_override=127.0.0.1:9000"));
  EXPECT_NO_THROW(refuse_secrets("abfss://container@account.dfs.core.windows.net/x?credential_kind=anonymous"));
  EXPECT_NO_THROW(refuse_secrets("gs://anonymous@bucket/x"));
}

// A server that answers only from the n-th time on.
class AwayAtFirst : public ByteStore {
 public:
  explicit AwayAtFirst(int failures) : failures_(failures) {}
  const std::string& name() const override { return name_; }
  std::string kind() const override { return "test"; }
  void list(Sizes, const Visit&) const override { answer(); }
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
  EXPECT_THAT(failure([&] { with_patience(gone, 0)->read({"a"}, 10); }), AllOf(HasSubstr("away"), HasSubstr("tried again for")));
  EXPECT_THAT(failure([&] { with_patience(gone)->list(Sizes::wanted, {}); }), HasSubstr("away"));
  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  EXPECT_THAT(failure([&] { with_patience(gone)->read({"a"}, 10); }), HasSubstr("stopped while"));
}

}  // namespace
}  // namespace lockstep::io
