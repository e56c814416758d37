#include "lockstep/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string refusal(std::string_view text, KeyTwice twice = KeyTwice::last_counts) {
  try {
    parse_json(text, twice);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

std::string nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

std::string object_of(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return text + "}";
}

TEST(ParseJson, GivesWhatTheLibraryGives) {
  for (const char* text :
       {"null", "\"text\"", "[]", "{}",
        R"({"b":[1,-2,3.5,true,null,"x\u00e9",{"c":{}}],"a":18446744073709551615,"b2":[[],[{"d":1}],2]})",
        R"({"a":1,"b":2,"a":[3]})", " [1e-3, 0.1] "}) {
    EXPECT_EQ(parse_json(text).dump(), Json::parse(text).dump()) << text;
  }
}

TEST(ParseJson, SaysWhereATextStopsBeingJson) {
  try {
    parse_json("[1,\n2");
    ADD_FAILURE();
  } catch (const JsonError& error) {
    EXPECT_THAT(error.what(), StartsWith("parse error at line 2"));
    EXPECT_EQ(error.byte, 6U);
  }
  for (const char* text : {"", "{", "[1]]", "{\"a\" 1}", "nul", "\"\xff\""})
    EXPECT_THAT(refusal(text), StartsWith("parse error at line 1")) << text;
  EXPECT_EQ(refusal("[1e999]"), "a number in it is too large");
  EXPECT_LT(refusal("[\"" + std::string(100'000, 'x')).size(), 400U);
}

// Nested deeper, the library's copies and dump() leave the stack.
TEST(ParseJson, BoundsDepth) {
  const Json deepest = parse_json(nested(32));
  EXPECT_EQ(Json(deepest).dump(), nested(32));
  EXPECT_EQ(refusal(nested(33)), "it is nested deeper than 32 levels");
  EXPECT_EQ(refusal(nested(1'000'000)), "it is nested deeper than 32 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal(objects), "it is nested deeper than 32 levels");
}

// The library looks through all keys of an object at each insertion.
TEST(ParseJson, BoundsKeysAndValues) {
  EXPECT_EQ(parse_json(object_of(1'000)).size(), 1'000U);
  EXPECT_EQ(refusal(object_of(100'000)), "an object in it has more than 1,000 keys");
  std::string zeros = "[0";
  for (int i = 0; i < 2'000'000; ++i) zeros += ",0";
  EXPECT_EQ(refusal(zeros + "]"), "it has more than 2,000,000 values");
}

TEST(ParseJson, AKeyThatStandsTwiceIsRefusedWhereThatIsAsked) {
  EXPECT_EQ(parse_json(R"({"seed":1,"seed":2})").dump(), R"({"seed":2})");
  EXPECT_EQ(refusal(R"([{"seed":1,"seed":2}])", KeyTwice::refused),
            "\"seed\" stands twice in one JSON object");
  EXPECT_EQ(refusal(R"([{"seed":1},{"seed":2}])", KeyTwice::refused), "");
  const std::string key(100'000, 'k');
  EXPECT_THAT(refusal("{\"" + key + "\":1,\"" + key + "\":2}", KeyTwice::refused),
              AllOf(HasSubstr("100000 bytes"), Not(HasSubstr("kk"))));
}

}  // namespace
}  // namespace lockstep
