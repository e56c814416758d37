#include "lockstep/record/measured_lines.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/record/event_kinds.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;

std::string line_of_step(int64_t step, double loss) {
  Event event = event_of(Step{.loss = loss,
                              .accuracy = 0.5,
                              .learning_rate = 0.1,
                              .shard_workers = {0, 1, 12},
                              .worker_seconds = std::vector<double>{0.25, 1e-7, 3}},
                         step, 3);
  event.time = 1795267126.25 + static_cast<double>(step);
  return to_line(event) + "\n";
}

// What the lines without keys and the rows say is what from_line says.
void expect_same(std::string_view text) {
  std::string again;
  for (const MeasuredLines& lines : read_measured_lines(text)) {
    again += lines.text;
    if (!lines.keys) continue;
    size_t row = 0;
    std::string_view rest = lines.text;
    ASSERT_EQ(lines.rows(), std::count(rest.begin(), rest.end(), '\n'));
    for (; !rest.empty(); ++row) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      Event event;
      ASSERT_NO_THROW(event = from_line(line)) << line;
      const double* values = lines.numbers.data() + row * lines.row_size();
      EXPECT_EQ(event.kind, lines.keys->kind);
      EXPECT_EQ(static_cast<double>(event.step), values[MeasuredLines::step]) << line;
      EXPECT_EQ(static_cast<double>(event.epoch), values[MeasuredLines::epoch]) << line;
      EXPECT_EQ(event.time, values[MeasuredLines::time]) << line;
      EXPECT_EQ(event.values.size(), lines.keys->names.size() + lines.keys->others.size()) << line;
      for (size_t i = 0; i < lines.keys->names.size(); ++i) {
        const double expected = number(event, lines.keys->names[i], -77);
        const double read = values[MeasuredLines::places + i];
        EXPECT_TRUE(expected == read || (std::isnan(expected) && std::isnan(read))) << line;
      }
    }
  }
  EXPECT_EQ(again, text);
}

TEST(MeasuredLines, ReadsTheLinesOfARunAndLeavesTheOthers) {
  Event end = event_of(End{.reason = "finished"}, 3, 1);
  const std::string text =
      line_of_step(1, 0.1) + line_of_step(2, NAN) + to_line(end) + "\n\n{\n" + line_of_step(3, 1e-7) +
      to_line(event_of(Validation{.loss = 2, .best = true}, 3, 1)) + "\n" + line_of_step(4, 4);
  const auto all = read_measured_lines(text);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[0].rows(), 2U);
  EXPECT_EQ(all[0].keys->kind, "step");
  EXPECT_THAT(all[0].keys->others, ElementsAre("shard_workers", "worker_seconds"));
  EXPECT_EQ(std::string(all[0].last) + "\n", line_of_step(2, NAN));
  EXPECT_EQ(all[1].keys, nullptr);
  EXPECT_EQ(all[1].text, to_line(end) + "\n\n{\n");
  EXPECT_EQ(all[3].keys->kind, "validation");
  EXPECT_THAT(all[3].keys->others, ElementsAre("best"));
  EXPECT_EQ(all[4].keys, all[2].keys);
  expect_same(text);
  EXPECT_TRUE(read_measured_lines("").empty());
}

// As other programs write them.
TEST(MeasuredLines, LeavesWhatItCannotReadAsJsonDoes) {
  const std::string begin = R"({"kind": "step", "step": 7, "values": {"loss": )";
  for (const char* good :
       {"1", "-1.5e3", "0", "-0", "0.25", "1E5", "\"nan\"", "\"-inf\"", "123456789012345678",
        "12345678901234567890123", "1e301", "3}, \"time\": {", "true", "[1, 2]", "[1.5, -2e-7]", "[]"}) {
    expect_same(begin + good + "}}\n");
  }
  for (const char* bad : {"01",  "1.",          ".5",   "+1",   "-",    "1e",  "1e999", "nan",
                          "inf", "\"fast\"",    "null", "[.5]", "[1,]", "tru", "{}",    "1, \"loss\": 2",
                          "1,",  "\"\\u0031\"", "1 1",  "0x1",  "1_0",  "\t1"}) {
    const std::string line = begin + bad + "}}\n";
    for (const MeasuredLines& lines : read_measured_lines(line)) EXPECT_EQ(lines.keys, nullptr) << line;
  }
  for (const char* bad :
       {R"({"kind":"step","step":-1,"values":{}})", R"({"kind":"step","step":1.0,"values":{}})",
        R"({"kind":"step","step":9007199254740993,"values":{}})", R"({"kind":"step","values":{}})",
        R"({"kind":"step","step":1,"rank":-2,"values":{}})", R"({"step":1,"values":{}})",
        R"({"kind":"step","step":1,"values":{}} )", R"({"kind":"step","step":1,"time":"inf","values":{}})",
        R"({"kind":"step","step":1,"step":2,"values":{}})", R"({"kind":"plan","step":1,"values":{}})"}) {
    for (const MeasuredLines& lines : read_measured_lines(std::string(bad) + "\n"))
      EXPECT_EQ(lines.keys, nullptr) << bad;
  }
}

TEST(MeasuredLines, AlteredLinesAreReadAsFromLineReadsThem) {
  std::mt19937 random(7);
  const std::string_view letters = "0123456789.-+eE\"{}[],: \\ntrufal\n\t";
  for (int i = 0; i < 3000; ++i) {
    std::string text = line_of_step(1, 0.5) + line_of_step(2, 1e-12) + line_of_step(3, -2);
    for (int change = 0; change < 2; ++change) {
      const size_t at = random() % text.size();
      const char letter =
          random() % 20 == 0 ? static_cast<char>(random() % 256) : letters[random() % letters.size()];
      if (random() % 2 == 0)
        text[at] = letter;
      else if (random() % 2 == 0)
        text.insert(at, 1, letter);
      else
        text.erase(at, 1);
    }
    if (text.back() != '\n') text += '\n';
    expect_same(text);
    if (HasFatalFailure()) return;
  }
}

TEST(MeasuredLines, SeveralThreadsKeepTheOrder) {
  std::string text;
  for (int64_t step = 1; step <= 10'000; ++step) {
    text += line_of_step(step, 1);
    if (step % 1000 == 0)
      text += R"({"kind":"message","step":1,"values":{"text":"hello"}})"
              "\n";
  }
  double last = 0;
  for (const MeasuredLines& lines : read_measured_lines(text)) {
    if (!lines.keys) continue;
    for (size_t row = 0; row < lines.rows(); ++row) EXPECT_EQ(lines.numbers[row * lines.row_size()], ++last);
  }
  EXPECT_EQ(last, 10'000);
  expect_same(text);
}

}  // namespace
}  // namespace lockstep::record
