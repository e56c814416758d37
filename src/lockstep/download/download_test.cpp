// What needs no server. Transfers are in tests/flow/weights_test.py.
#include "lockstep/download/download.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/download/sha256.h"

namespace lockstep::download {
namespace {

using testing::HasSubstr;

// FIPS 180-4, examples of NIST.
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256, HashesPiecesAndFiles) {
  Sha256 hash;
  hash.add("a");
  hash.add("bc");
  EXPECT_EQ(hash.finish(), kAbc);
  EXPECT_EQ(Sha256().finish(), kNothing);

  const test::TemporaryFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("abc", "abc")), kAbc);
  EXPECT_EQ(sha256_of_file(folder.write("empty", "")), kNothing);
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(sha256_of_file(folder.write("million", million)),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(sha256_of_file(folder.path() / "none"), Error);
}

TEST(Download, WhatIsThereIsRecognisedByItsHash) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("abc", "abc");
  EXPECT_TRUE(is_there({.address = "", .sha256 = "ba7816bf"}, path));
  EXPECT_TRUE(is_there({.address = "", .sha256 = kAbc}, path));
  EXPECT_FALSE(is_there({.address = "", .sha256 = "ba7816be"}, path));
  EXPECT_FALSE(is_there({.address = "", .sha256 = "ba7816bf"}, folder.path() / "none"));
  EXPECT_FALSE(is_there({.address = "", .sha256 = "ba7816bf"}, folder.path()));
  // No server is asked for what is there.
  fetch({.address = "http://no.such.host.invalid/abc", .sha256 = kAbc, .most_bytes = 3}, path);
}

TEST(Download, MirrorsHaveTheFilesByTheirNames) {
  const std::string address = "https://example.org/models/a-0123.pth";
  EXPECT_EQ(on_mirror("https://mirror.example", address), "https://mirror.example/a-0123.pth");
  EXPECT_EQ(on_mirror("http://mirror.example/copies/", address), "http://mirror.example/copies/a-0123.pth");
  try {
    on_mirror("file:///etc", address);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("\"file:///etc\" is no address of a web server"));
  }
}

}  // namespace
}  // namespace lockstep::download
