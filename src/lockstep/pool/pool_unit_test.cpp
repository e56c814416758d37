#include "lockstep/pool/internal/pool_unit.h"

#include <cstring>
#include <filesystem>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/pool/internal/pool_place.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;

std::string sent() {
  return word_text(2, 1, {{"kind", "here"}}) +
         unit_text({.worker = 3, .kind = UnitKind::bytes, .start = 7, .bytes = std::string("a\0b", 3)});
}

TEST(PoolUnit, ArrivesWholeHoweverItIsCut) {
  for (const size_t piece : {size_t{1}, size_t{5}, size_t{1000}}) {
    UnitReader reader;
    std::vector<Unit> units;
    for (size_t at = 0; at < sent().size(); at += piece) {
      reader.buffer() += sent().substr(at, piece);
      while (auto unit = reader.next()) units.push_back(*unit);
    }
    ASSERT_EQ(units.size(), 2U);
    EXPECT_EQ(word_in(units[0])["kind"], "here");
    EXPECT_EQ(units[0].worker, 2U);
    EXPECT_EQ(units[1].start, 7U);
    EXPECT_EQ(units[1].bytes, std::string("a\0b", 3));
  }
}

TEST(PoolUnit, WhatIsNoneIsRefusedBeforeItIsHeldInMemory) {
  UnitReader reader;
  reader.buffer() = "GET / HTTP/1.1\r\nHost: pool\r\n\r\n";
  EXPECT_THROW(reader.next(), Error);
  UnitReader large;
  std::string head = unit_text({.worker = 1, .kind = UnitKind::bytes});
  const uint32_t size = 0xfffffff0;
  std::memcpy(head.data() + head.size() - sizeof size, &size, sizeof size);
  large.buffer() = head;
  EXPECT_THROW(large.next(), Error);
}

TEST(PoolUnit, AWordIsAnObjectWithAKind) {
  for (const char* text : {"", "[1]", "{}", R"({"kind": 7})", "{"})
    EXPECT_THROW(word_in({.bytes = text}), Error) << text;
  EXPECT_THROW(word_in({.kind = UnitKind::bytes, .bytes = R"({"kind": "here"})"}), Error);
}

TEST(PoolPlace, IsReadableForItsUserAlone) {
  const test::TemporaryFolder root;
  const fs::path folder = root.path() / "pools" / "1";
  write_pool_place(folder, {.addresses = {"10.0.0.1"}, .port = 7, .secret = "abc", .first = 3});
  struct stat about {};
  ASSERT_EQ(::stat((folder / "place.json").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  const PoolPlace place = read_pool_place(folder);
  EXPECT_THAT(place.addresses, testing::ElementsAre("10.0.0.1"));
  EXPECT_EQ(place.first, 3);
  EXPECT_EQ(place.secret, "abc");
  remove_pool_place(folder);
  EXPECT_THROW(read_pool_place(folder), Error);
}

}  // namespace
}  // namespace lockstep::pool
