#include "lockstep/studio/form.h"

#include <functional>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::studio {
namespace {

// What is said of a request that is refused as a mistake of the caller; empty for any other end.
std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_option ? error.message() : "";
  }
  return "";
}

TEST(Form, NamesTheFieldWhoseValueHasAnotherType) {
  const Json body{{"data", 5}, {"name", nullptr}, {"as_job", "yes"}, {"text", "a"}, {"set", true}};
  EXPECT_EQ(refusal([&] { text_in(body, "data"); }),
            R"("data" of the request must be a text, and its type is number)");
  EXPECT_EQ(refusal([&] { text_in(body, "name", "x"); }),
            R"("name" of the request must be a text, and its type is null)");
  EXPECT_EQ(refusal([&] { is_set_in(body, "as_job"); }),
            R"("as_job" of the request must be true or false, and its type is string)");
  EXPECT_EQ(refusal([&] { text_in(body, "word"); }), R"(the request lacks "word")");
  EXPECT_EQ(text_in(body, "word", "x"), "x");
  EXPECT_EQ(text_in(body, "text", "x"), "a");
  EXPECT_TRUE(is_set_in(body, "set"));
  EXPECT_FALSE(is_set_in(body, "word"));
}

TEST(Form, NamesTheOptionWhoseValueIsNoText) {
  FieldInfo seed;
  seed.name = "seed";
  const std::vector<FieldInfo> fields{seed};
  EXPECT_EQ(refusal([&] {
              option_words(Json{{"seed", 5}}, fields, {}, "train");
            }),
            R"("seed" of the request must be a text, and its type is number)");
  EXPECT_EQ(refusal([&] { option_words(5, fields, {}, "train"); }),
            "the options of lockstep train must be an object of texts, and their type is number");
}

}  // namespace
}  // namespace lockstep::studio
