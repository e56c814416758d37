#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/view/internal/synthetic_run.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

using testing::HasSubstr;
using testing::Not;

class SvgTest : public testing::Test {
 protected:
  std::string draw(const std::vector<record::Event>& events) {
    const auto view = svg_curves(run_);
    for (const record::Event& event : events) view->show(event);
    view->finish();
    return read_file(run_ / "curves.svg");
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
};

// The first fault of an XML text in its tags, quotes and entities; empty when it is well-formed as far as we
// use XML.
std::string xml_fault(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < xml.size()) {
    const size_t tag = xml.find('<', at);
    const std::string between = xml.substr(at, tag - at);
    for (size_t entity = between.find('&'); entity != std::string::npos;
         entity = between.find('&', entity + 1)) {
      if (between.find(';', entity) == std::string::npos) return "a bare & in: " + between;
    }
    if (tag == std::string::npos) break;
    const size_t end = xml.find('>', tag);
    if (end == std::string::npos) return "a tag without end";
    const std::string inside = xml.substr(tag + 1, end - tag - 1);
    if (std::count(inside.begin(), inside.end(), '"') % 2 != 0 || inside.find('<') != std::string::npos)
      return "broken tag: " + inside;
    const std::string name = inside.substr(0, inside.find_first_of(" /", 1));
    if (name.front() == '/') {
      if (open.empty() || "/" + open.back() != name) return "closes what is not open: " + name;
      open.pop_back();
    } else if (inside.back() != '/') {
      if (open.empty() && at > 0) return "a second root";
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST_F(SvgTest, AValidationAfterEachStepMakesNoLargeFile) {
  std::vector<record::Event> events{{.epoch = 1, .step = 1, .kind = "step", .values = {{"loss", 1.0}}}};
  for (int64_t step = 1; step <= 50'000; ++step) {
    const double accuracy = step == 12'345 ? 0.999 : 0.5;
    events.push_back({.epoch = 1,
                      .step = step,
                      .kind = "validation",
                      .values = {{"loss", 1.0}, {"accuracy", accuracy}, {"best", accuracy > 0.9}}});
  }
  const std::string text = draw(events);
  EXPECT_LT(text.size(), 200'000U);
  EXPECT_THAT(text, HasSubstr("best held-out accuracy 0.9990"));
}

TEST_F(SvgTest, IsWellFormedAndNamesWhatItShows) {
  const std::string svg = draw(synthetic_events());
  EXPECT_EQ(xml_fault(svg), "");
  for (const char* part : {"digits_cnn on digits-png", "epoch 8 of 8, step 568 of 568", ">accuracy<",
                           ">loss<", ">learning rate<", ">step<", "held-out", "epoch 1"})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST_F(SvgTest, OddRunsAreDrawnToo) {
  EXPECT_EQ(xml_fault(draw({synthetic_events().front()})), "");
  std::vector<record::Event> events =
      synthetic_events({.epochs = 1, .steps_per_epoch = 1, .validate = false});
  events[0].values["network"] = "a<b>&\"c\".json";
  EXPECT_EQ(xml_fault(draw(events)), "");
  for (record::Event& event : events) {
    if (event.kind == "step") event.values = {{"loss", std::nan("")}, {"accuracy", INFINITY}};
  }
  const std::string svg = draw(events);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST_F(SvgTest, LongRunsMakeSmallFiles) {
  const std::string svg = draw(synthetic_events({.epochs = 300, .steps_per_epoch = 200}));
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_LT(svg.size(), 200'000U);
}

TEST_F(SvgTest, AResumedRunKeepsItsPast) {
  const std::vector<record::Event> events = synthetic_events();
  const auto view = svg_curves(run_);
  for (const record::Event& event : events) {
    if (event.step < 200) view->add_earlier(event);
  }
  std::for_each(events.end() - 150, events.end(), [&](const record::Event& event) { view->show(event); });
  view->finish();
  const std::string svg = read_file(run_ / "curves.svg");
  EXPECT_THAT(svg, HasSubstr("epoch 1</text>"));
  EXPECT_THAT(svg, HasSubstr("step 568 of 568"));
}

TEST_F(SvgTest, AFolderThatCannotBeWrittenIsAnErrorOnce) {
  const auto view = svg_curves(run_);
  std::filesystem::create_directory(run_ / "curves.svg.part");
  const auto events = synthetic_events();
  int thrown = 0;
  for (const record::Event& event : events) {
    try {
      view->show(event);
    } catch (const Error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_NO_THROW(view->finish());
}

}  // namespace
}  // namespace lockstep::view
