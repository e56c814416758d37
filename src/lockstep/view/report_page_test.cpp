#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/synthetic_run.h"
#include "lockstep/view/report.h"

namespace lockstep::view {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Report two_classes() {
  Report report;
  report.run = "runs/pets-001";
  report.events = synthetic_events();
  report.weights = "runs/pets-001/model.safetensors";
  report.weights_hash = "0123456789abcdef";
  report.judged = true;
  Judgement& judgement = report.judgement;
  judgement.samples = "20 held-out images of pets";
  judgement.accuracy = 0.85;
  judgement.loss = 0.4;
  judgement.classes = {"cat", "dog"};
  judgement.confusion = {{8, 2}, {1, 9}};
  judgement.mistake_count = 3;
  judgement.mistakes = {{.source = "pets/cat/1.png",
                         .truth = "cat",
                         .answer = "dog",
                         .score = 0.987,
                         .truth_score = 0.013,
                         .image_type = "image/png",
                         .image = "pixels"}};
  return report;
}

// The page without its style sheet and the curves.
std::string body_of(const std::string& page) {
  std::string body = page.substr(page.find("<body>"));
  if (const size_t svg = body.find("<svg"); svg != std::string::npos)
    body.erase(svg, body.find("</svg>") - svg);
  return body;
}

int64_t count_in_page(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(ReportPage, ShowsWhatTheRunDid) {
  const std::string page = report_page(two_classes());
  for (const char* part :
       {"digits_cnn", "20 held-out images of pets", "85.00", "0123456789abcdef", "<svg", "Confusion matrix",
        "8 of 10: true cat, answered cat", "2 of 10: true cat, answered dog", "98.7", "pets/cat/1.png",
        "3 of 20 held-out images of pets", "src=\"data:image/png;base64,cGl4ZWxz\"",
        "skipped 1 of 10,000 samples", "aria-label=\"curves\"><svg"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(ReportPage, TellsOfTheNewestAttempt) {
  Report report = two_classes();
  report.events.push_back(
      {.attempt = 1, .step = 9, .kind = "step", .values = {{"loss", 1.0}, {"accuracy", 0.5}}});
  EXPECT_THAT(report_page(report), HasSubstr("has not ended"));
  report.events.push_back({.attempt = 1, .step = 9, .kind = "failed", .values = {{"error", "no <space>"}}});
  EXPECT_THAT(report_page(report), HasSubstr("failed: no &lt;space&gt;"));
}

TEST(ReportPage, LoadsNothingAndRunsNothing) {
  const std::string page = report_page(two_classes());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  const std::string body = body_of(page);
  EXPECT_THAT(body, Not(HasSubstr("http")));
  EXPECT_EQ(count_in_page(body, "src="), count_in_page(body, "src=\"data:image/"));
}

TEST(ReportPage, NamesAreNeverMarkup) {
  const std::string hostile = "\"><script>alert('x')</script><img src=x onerror=alert(1)>&amp;\xFF\x1B[31m";
  Report report = two_classes();
  report.run = report.weights = report.judgement.samples = report.judgement.noun =
      report.judgement.all_mistakes = report.weights_hash = hostile;
  report.judgement.classes = {hostile, hostile};
  report.warnings = {hostile};
  for (std::string* text : {&report.judgement.mistakes[0].source, &report.judgement.mistakes[0].truth,
                            &report.judgement.mistakes[0].answer, &report.judgement.mistakes[0].image_type})
    *text = hostile;
  for (record::Event& event : report.events) {
    if (event.kind == "plan")
      event.values = {
          {"network", hostile}, {"folder", hostile}, {"lines", {{hostile, hostile, hostile}, {"odd"}, 7}}};
    if (event.kind == "message") event.values = {{"text", hostile}, {"level", "warning"}};
    if (event.kind == "end") event.values["reason"] = hostile;
  }
  for (const bool image : {true, false}) {
    if (!image) report.judgement.mistakes[0].image.clear();
    const std::string page = report_page(report);
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("<img src")));
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
    EXPECT_EQ(std::count(page.begin(), page.end(), '\xFF'), 0);
    EXPECT_EQ(std::count(page.begin(), page.end(), '\x1B'), 0);
    // Each < of the page begins one of our own tags.
    EXPECT_EQ(count_in_page(body_of(page), "onerror"),
              count_in_page(body_of(page), "src=x onerror=alert(1)&gt;"));
  }
}

TEST(ReportPage, OddRunsHaveAPageToo) {
  EXPECT_THAT(report_page({}), HasSubstr("</html>"));
  Report report = two_classes();
  report.judged = false;
  report.not_judged = "no images";
  const std::string page = report_page(report);
  EXPECT_THAT(page, HasSubstr("Not judged on images: no images"));
  EXPECT_THAT(page, Not(HasSubstr("Confusion matrix")));
  EXPECT_THAT(page, HasSubstr("98.60"));

  report = two_classes();
  report.judgement.mistake_count = 0;
  report.judgement.mistakes.clear();
  EXPECT_THAT(report_page(report), HasSubstr("every one of 20 held-out images of pets"));
}

TEST(ReportPage, WithoutJudgementItShowsWhatTheRunKept) {
  Report report = two_classes();
  report.judged = false;
  report.kept = {{"cat", "dog"}, {{5, 1}, {2, 4}}};
  const std::string page = report_page(report);
  EXPECT_THAT(page, HasSubstr("On 12 labels of the best validation"));
  EXPECT_THAT(page, HasSubstr("1 of 6: true cat, answered dog"));
  report.judged = true;
  EXPECT_THAT(report_page(report),
              AllOf(HasSubstr("2 of 10: true cat, answered dog"), Not(HasSubstr("1 of 6:"))));
}

TEST(ReportPage, ManyClassesMakeNoHugeTable) {
  Report report = two_classes();
  report.judgement.classes.assign(1000, "some class");
  report.judgement.confusion.assign(1000, std::vector<int64_t>(1000, 1));
  EXPECT_LT(report_page(report).size(), 1'000'000U);
}

TEST(Markup, KeepsLettersAndReplacesTheRest) {
  EXPECT_EQ(escaped("Äpfel & <Birnen> 梨 \"it's\""), "Äpfel &amp; &lt;Birnen&gt; 梨 &quot;it&#39;s&quot;");
  EXPECT_EQ(escaped("a\tb\nc"), "a b c");
  EXPECT_EQ(escaped("\xC0\xAF\xED\xA0\x80\xC2\x85"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xE6\xA2"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace lockstep::view
