#include <filesystem>
#include <set>
#include <thread>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "lockstep/base/base64.h"
#include "lockstep/base/bounded_queue.h"
#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/describe.h"
#include "lockstep/base/dimensions.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/base/text.h"

namespace lockstep {

// With linkage, because Clang checks conversions to it (describe.h).
struct DescribedPart {
  int64_t count = 0;
  static constexpr auto describe = [](auto& self, auto&& field) { field("count", self.count); };
};

namespace {

using Part = DescribedPart;

enum class Colour { red, green };
constexpr std::array<const char*, 2> enum_names(Colour) { return {"red", "green"}; }

struct Options {
  double rate = 0.1;
  int64_t epochs = 3;
  bool loud = false;
  std::string name = "x";
  Colour colour = Colour::red;
  std::vector<int64_t> devices{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("First");
    field("rate", self.rate, "step size", above(0));
    field("epochs", self.epochs, "how many", also("passes", between(1, 100)));
    field("loud", self.loud, "say more");
    field("Second");
    field("name", self.name, "a name");
    field("colour", self.colour, "a colour");
    field("devices", self.devices, "numbers", at_least(0));
  };
};

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Describe, TextAndJsonReadBackWhatTheyWrote) {
  Options options;
  set_field(options, "rate", "2.5e-3");
  set_field(options, "colour", "green");
  set_field(options, "devices", "0,3");
  Options again;
  read_json(to_json(options), again, "file");
  EXPECT_EQ(to_json(again), to_json(options));
  EXPECT_EQ(again.rate, 0.0025);
  EXPECT_EQ(again.devices, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(field_text(again, "colour"), "green");
  EXPECT_EQ(fields_of<Options>()[3].section, "Second");
  EXPECT_EQ(fields_of<Options>()[4].type, "red|green");
}

struct Whole {
  Part part;
  std::vector<Part> parts;
  std::vector<std::string> names;
  std::vector<double> shares;
  std::optional<double> limit;
  std::optional<Part> spare;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("part", self.part);
    field("parts", self.parts);
    field("names", self.names);
    field("shares", self.shares);
    field("limit", self.limit);
    field("spare", self.spare);
  };
};

TEST(Describe, JsonHasStructsListsAndWhatMayBeAbsent) {
  const Whole written{{3}, {{1}, {2}}, {"a", "b"}, {0.25, 1e300}, {}, Part{7}};
  const Json json = to_json(written);
  EXPECT_EQ(json, Json::parse(R"({"part": {"count": 3}, "parts": [{"count": 1}, {"count": 2}],
                                  "names": ["a", "b"], "shares": [0.25, 1e300], "spare": {"count": 7}})"));
  Whole read;
  read.parts.resize(5);
  read_json(json, read, "file");
  EXPECT_EQ(to_json(read), json);
  EXPECT_EQ(read.parts.size(), 2U);
  EXPECT_FALSE(read.limit.has_value());
  read_json(Json{{"limit", 0.5}}, read, "file");
  EXPECT_EQ(read.limit, 0.5);
  for (const char* bad : {R"({"part": 3})", R"({"part": {"counts": 3}})", R"({"part": {"count": 3.5}})",
                          R"({"parts": {"count": 3}})", R"({"parts": [3]})", R"({"names": "a"})",
                          R"({"names": [1]})", R"({"shares": ["a"]})", R"({"limit": []})"}) {
    EXPECT_THROW(read_json(Json::parse(bad), read, "file"), Error) << bad;
  }
}

TEST(Describe, BadOptionsNameTheValueAndTheNearest) {
  Options options;
  EXPECT_NE(error_of([&] { set_field(options, "epoch", "1"); }).find("did you mean --epochs?"),
            std::string::npos);
  EXPECT_NE(error_of([&] { set_field(options, "epochs", "0"); }).find("from 1 to 100"), std::string::npos);
  EXPECT_NE(error_of([&] { set_field(options, "epochs", "1e3"); }).find("\"1e3\""), std::string::npos);
  EXPECT_NE(error_of([&] { set_field(options, "rate", "nan"); }).find("above 0"), std::string::npos);
  EXPECT_NE(error_of([&] { set_field(options, "colour", "grean"); }).find("did you mean green?"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { set_field(options, "nonsense", "1"); }),
            "there is no option --nonsense\n  hint: the options are: --rate, --epochs, --loud, --name, "
            "--colour, --devices");
  EXPECT_EQ(error_of([&] { set_field(options, "rate", "-1"); }),
            "option --rate cannot be \"-1\": it must be a number above 0\n  hint: step size");
}

TEST(Describe, AFieldMayHaveAnotherName) {
  Options options;
  set_field(options, "passes", "7");
  EXPECT_EQ(options.epochs, 7);
  EXPECT_EQ(read_json(Json::parse(R"({"passes": 8})"), options, ""), std::vector<std::string>{"epochs"});
  EXPECT_EQ(options.epochs, 8);
  EXPECT_FALSE(to_json(options).contains("passes"));
  EXPECT_EQ(fields_of<Options>()[1].alias(), "passes");
  EXPECT_TRUE(fields_of<Options>()[1].is_option("--passes"));
}

TEST(Describe, ValuesThatAProgramSetAreChecked) {
  Options options;
  check_values(options);
  options.epochs = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(error_of([&] { check_values(options); }),
            "option --epochs cannot be \"9223372036854775807\": it must be a whole number from 1 to 100\n  "
            "hint: how many");
  options = {.rate = std::numeric_limits<double>::quiet_NaN()};
  EXPECT_NE(error_of([&] { check_values(options); }).find("\"nan\""), std::string::npos);
  EXPECT_NE(error_of([] { fields_of<Options>()[0].check("0"); }).find("above 0"), std::string::npos);
}

TEST(Describe, LimitsArePlainNumbers) {
  const auto refusal = [](FieldTraits limits) {
    int64_t value = 0;
    return error_of([&] { describe_detail::parse("count", "none", limits, value); });
  };
  EXPECT_TRUE(refusal(between(1, 1e7)).ends_with("from 1 to 10000000"));
  EXPECT_TRUE(refusal(at_least(1e-6)).ends_with("of at least 0.000001"));
  EXPECT_TRUE(refusal(above(0, 5)).ends_with("above 0, at most 5"));
  EXPECT_TRUE(refusal(between(0, 0x1p63)).ends_with("from 0 to 9223372036854775807"));
  EXPECT_TRUE(refusal({.high = 1e18}).ends_with("of at most 1000000000000000000"));
}

TEST(Describe, WhatIsReadIsNamedOnce) {
  Options options;
  const auto refusal = [&](const char* json, std::string_view where) {
    return error_of([&] { read_json(Json::parse(json), options, where); });
  };
  EXPECT_EQ(refusal(R"({"rat": 1})", "\"o.json\""),
            "there is no option --rat\n  while reading \"o.json\"\n  hint: did you mean --rate?");
  EXPECT_TRUE(refusal(R"({"rate": -1})", "\"o.json\"")
                  .ends_with("above 0\n  while reading \"o.json\"\n  hint: step size"));
  EXPECT_TRUE(refusal("[1]", "\"o.json\"")
                  .starts_with("this is not a JSON object of options\n  while reading \"o.json\""));
  EXPECT_EQ(refusal(R"({"rat": 1})", ""), "there is no option --rat\n  hint: did you mean --rate?");
}

struct TwoNames {
  std::string schedule = "constant";
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("lr-schedule", self.schedule, "how the rate falls", also("learning-rate-schedule"));
  };
};

// A file that names an option by both of its names would leave open which value counts.
TEST(Describe, AFieldHasOneValue) {
  TwoNames options;
  EXPECT_EQ(read_json(Json{{"learning-rate-schedule", "cosine"}}, options, ""),
            std::vector<std::string>{"lr-schedule"});
  EXPECT_EQ(options.schedule, "cosine");
  EXPECT_EQ(error_of([&] {
              read_json(Json{{"learning-rate-schedule", "cosine"}, {"lr-schedule", "constant"}}, options, "");
            }),
            "option --lr-schedule is given twice, also as --learning-rate-schedule\n  hint: leave out one of "
            "them");
}

TEST(Seed, PermutationIsAPureFunctionAndComplete) {
  EXPECT_EQ(permutation(1000, 5), permutation(1000, 5));
  EXPECT_NE(permutation(1000, 5), permutation(1000, 6));
  const auto order = permutation(1000, 7);
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 1000u);
}

TEST(Text, FiguresAsPeopleReadThem) {
  EXPECT_EQ(with_commas(9728), "9,728");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
  EXPECT_EQ(quote("a b"), "\"a b\"");
  EXPECT_EQ(as_duration(75), "1:15");
  EXPECT_EQ(as_bytes(7340032), "7.0 MB");
  EXPECT_EQ(shortest(0.1), "0.1");
}

TEST(BoundedQueue, KeepsOrderAndHandsOnTheError) {
  BoundedQueue<int> queue(2);
  std::jthread producer([&] {
    for (int i = 0; i < 100; ++i) queue.push(i);
    queue.close(std::make_exception_ptr(Error(ErrorCode::io, "gone")));
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.pop(), i);
  EXPECT_THROW(queue.pop(), Error);
}

TEST(BoundedQueue, StopEndsAWait) {
  BoundedQueue<int> queue(1);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(queue.pop(stop.get_token()).has_value());
}

TEST(File, AtomicWriteLeavesTheOldFileWhenItFails) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "lockstep_file_test";
  std::filesystem::remove_all(folder);
  make_folders(folder);
  write_file_atomic(folder / "a", "one");
  write_file_atomic(folder / "a", "two");
  EXPECT_EQ(read_file(folder / "a"), "two");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.part"));
  EXPECT_NE(error_of([&] { read_file(folder / "b"); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_file(folder / "a", 2); }).find("more than"), std::string::npos);
  EXPECT_THROW(write_file_atomic("/dev/full/a", "x"), Error);
  std::filesystem::remove_all(folder);
}

TEST(File, LinksAndDevicesStayWhatTheyAre) {
  const lockstep::test::TemporaryFolder folder;
  const std::filesystem::path link = folder.path() / "link", device = folder.path() / "device";
  folder.write("file", "old");
  std::filesystem::create_symlink("file", link);
  std::filesystem::create_symlink("/dev/null", device);
  write_file_atomic(link, "new");
  write_file_atomic(device, "nowhere");
  EXPECT_EQ(read_file(folder.path() / "file"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_symlink(device));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(error_of([&] {
                write_file_atomic(folder.path(), "x");
              }).ends_with(": Is a directory\n  hint: it is a folder; name a file"));
  EXPECT_TRUE(error_of([&] {
                read_file(folder.path() / "file/part");
              }).ends_with(": Not a directory\n  hint: the path, or a part of it, is a file; name a folder"));
}

TEST(File, APipeInAFolderIsNotWaitedFor) {
  const lockstep::test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "x.png").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { read_file(folder.path() / "x.png"); }).find("is a pipe and no file"),
            std::string::npos);
}

TEST(File, ALinkToADeviceIsNoRegularFile) {
  const lockstep::test::TemporaryFolder folder;
  const std::filesystem::path link = folder.path() / "sweep.json";
  std::filesystem::create_symlink("/dev/zero", link);  // never ends
  EXPECT_NE(error_of([&] { read_regular_file(link, int64_t{1} << 40); }).find("is no regular file"),
            std::string::npos);
  std::filesystem::remove(link);
  EXPECT_NE(error_of([&] { read_regular_file(link, 10); }).find("No such file"), std::string::npos);
  std::filesystem::create_symlink(folder.write("file", "text"), link);
  EXPECT_EQ(read_regular_file(link, 10), "text");
}

TEST(Text, Utf8IsToldFromOtherBytes) {
  for (const char* text : {"", "cat", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text :
       {"\xFF", "a\xFE", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Text, IsCutBetweenLetters) {
  EXPECT_EQ(cut("a\xC3\xA4\xE2\x82\xAC", 2), "a\xC3\xA4");
  EXPECT_EQ(cut("ab", 5), "ab");
  EXPECT_EQ(cut("ab", 0), "");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xA4\xC3\xA4", 3), "\xC3\xA4\xC3\xA4\xC3\xA4");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xA4\xC3\xA4", 2), "\xC3\xA4\xE2\x80\xA6");
}

TEST(Text, LettersOfEastAsiaHaveTwoColumnsAndMarksHaveNone) {
  EXPECT_EQ(width_of("cat \xC3\xA4\xE2\x82\xAC\xE2\x80\xA6"), 7);
  EXPECT_EQ(width_of("\xE7\x8C\xAB\xED\x95\x9C"), 4) << "Chinese, Korean";
  EXPECT_EQ(width_of("\xF0\x9F\x98\x80"), 2) << "an emoji";
  EXPECT_EQ(width_of("\u2b50\u26a1"), 4) << "emoji among other symbols";
  EXPECT_EQ(width_of("a\xCC\x88"), 1) << "a and a combining diaeresis";
  EXPECT_EQ(width_of("\u09ac\u09cd\u09af"), 2) << "two letters of Bengali and a mark below the first";
  EXPECT_EQ(width_of("\u0915\u093e"), 2) << "a letter of Hindi and a mark beside it";
  EXPECT_EQ(width_of("\u1112\u1161\u11ab"), 2) << "a Korean syllable, as macOS writes it";
  EXPECT_EQ(width_of("\u00a7\u03b1\u0416"), 3) << "two columns only among letters of East Asia";
  EXPECT_EQ(width_of("\t\xC2\x85"), 2) << "controls";
  EXPECT_EQ(width_of("a\xFF"), 2) << "not UTF-8";
  EXPECT_EQ(cut("\xE7\x8C\xAB\xE7\x8C\xAB", 3), "\xE7\x8C\xAB");
  EXPECT_EQ(cut("a\xCC\x88z", 1), "a\xCC\x88");
  EXPECT_EQ(shortened("\xE7\x8C\xAB\xE7\x8C\xAB", 3), "\xE7\x8C\xAB\xE2\x80\xA6");
}

TEST(Text, NamesCannotSteerTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\nb\t\x7f\xC3\xA4"), "a?[31m b ?\xC3\xA4");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\x9B"
                      "2J\xC2\xA0\xE4\xE2\x82\xAC"),
            "?2J?2J\xC2\xA0\xE4\xE2\x82\xAC");
  EXPECT_EQ(printable("cat\xE2\x80\xAEgpj.exe\xE2\x81\xA6\xE2\x80\xA8"), "cat?gpj.exe??")
      << "the direction, a line";
  EXPECT_EQ(printable("\xD7\x90\xE2\x80\x8D"), "\xD7\x90\xE2\x80\x8D") << "Hebrew, and a joiner of emoji";
}

TEST(Dimensions, OrderIsFoundByLetter) {
  EXPECT_EQ(dimension_order("BCSS", "SSCB"), (std::vector<int64_t>{2, 3, 1, 0}));
  EXPECT_EQ(dimension_order("CBT", "CBT"), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(
      error_of([] { dimension_order("BCSS", "SCB"); }),
      "dimensions \"BCSS\" cannot be put in the order \"SCB\"\n  hint: both must have the same letters");
  EXPECT_TRUE(
      error_of([] { check_dimensions("BCXS"); }).starts_with("the dimensions \"BCXS\" have a letter \"X\""));
  EXPECT_TRUE(
      error_of([] { check_dimensions("BBSS"); }).starts_with("the dimensions \"BBSS\" have \"B\" twice"));
  EXPECT_EQ(error_of([] {
              check_labelled("SSCB", {3, 4}, "the input");
            }),
            "the input has 2 dimensions, and \"SSCB\" names 4");
}

TEST(Text, ANumberIsTheWholeText) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<double>("1e-3"), 0.001);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "0x10", "99999999999999999999"})
    EXPECT_EQ(parse_number<int64_t>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<int64_t>("1.5"), std::nullopt);
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(as_base64(""), "");
  EXPECT_EQ(as_base64("f"), "Zg==");
  EXPECT_EQ(as_base64("fo"), "Zm8=");
  EXPECT_EQ(as_base64("foo"), "Zm9v");
  EXPECT_EQ(as_base64("\xFF\xEF\x3E"), "/+8+");
}

}  // namespace
}  // namespace lockstep
