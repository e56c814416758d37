// Addresses of stores: their parts, and the secrets that they must not hold.
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/io/address.h"
#include "lockstep/io/test_stores.h"

namespace lockstep::io {
namespace {

using test::failure;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

}  // namespace
}  // namespace lockstep::io
