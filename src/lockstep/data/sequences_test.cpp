#include "lockstep/data/sequences.h"

#include <cstdlib>

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_limit.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_sources.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;
using test::open_failure;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The numbers of a sample, padded to `steps`.
std::vector<float> read(const Dataset& dataset, int64_t index, int64_t steps,
                        PaddingSide padding = PaddingSide::right) {
  const int64_t channels = dataset.store().image_size(index).channels;
  const ImageSet set(
      dataset,
      {.channels = channels, .height = 1, .width = steps, .kind = SampleKind::sequence, .padding = padding},
      0);
  std::vector<float> values(static_cast<size_t>(channels * steps), 99.f);
  set.read(index, {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)});
  return values;
}

const std::string kHeader =
    "# text\n@problemName X\n@timeStamps false\n@univariate false\n@classLabel true left right\n@data\n";

TEST(TsFile, IsReadWithItsClasses) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.ts", kHeader + "1,2,3:4,5,6:right\r\n\n 1.5e1 , -2:+3,4:left\n");
  const Source source = open_source(file);
  EXPECT_EQ(source.kind, "sequence file");
  EXPECT_THAT(source.dataset.classes(), ElementsAre("left", "right"));
  ASSERT_EQ(source.dataset.size(), 2);
  EXPECT_EQ(source.dataset.store().label(0), 1);
  EXPECT_EQ(source.dataset.store().image_size(1), (ImageSize{2, 1, 2}));
  EXPECT_THAT(read(source.dataset, 0, 3), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read(source.dataset, 1, 3), ElementsAre(15, -2, 0, 3, 4, 0));
  EXPECT_THAT(read(source.dataset, 1, 3, PaddingSide::left), ElementsAre(0, 15, -2, 0, 3, 4));
}

TEST(TsFile, OfJapaneseVowelsHasItsCounts) {
  const Source source = open_source(test::test_data("sequences/JapaneseVowels_TRAIN.ts"));
  EXPECT_EQ(source.dataset.size(), 270);
  EXPECT_EQ(source.dataset.classes().size(), 9u);
  int64_t shortest = 1000, longest = 0;
  for (int64_t i = 0; i < 270; ++i) {
    const ImageSize size = source.dataset.store().image_size(i);
    EXPECT_EQ(size.channels, 12);
    shortest = std::min(shortest, size.width);
    longest = std::max(longest, size.width);
  }
  EXPECT_EQ(shortest, 7);
  EXPECT_EQ(longest, 26);
}

TEST(TsFile, ThatIsBrokenIsNamedWithItsLine) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& text) { return open_failure(folder.write("bad.ts", text)); };
  EXPECT_THAT(said(kHeader + "1,2:3,4:left\n1,x:3,4:left\n"),
              AllOf(HasSubstr("bad.ts\", line 8: \"x\" is not a finite number")));
  EXPECT_THAT(said(kHeader + "1,2:3,4:middle\n"), HasSubstr("line 7: class \"middle\" is not one of the 2"));
  EXPECT_THAT(said(kHeader + "1,2:3:left\n"),
              HasSubstr("line 7: channel 2 has 1 value, but the first one has 2"));
  EXPECT_THAT(said(kHeader + "1,2:3,4:left\n1,2:left\n"),
              HasSubstr("line 8: the series has 1 channel, but the first one has 2"));
  EXPECT_THAT(said(kHeader + "1,?:3,4:left\n"), HasSubstr("a value is missing"));
  EXPECT_THAT(said(kHeader + "1,nan:3,4:left\n"), HasSubstr("\"nan\" is not a finite number"));
  EXPECT_THAT(said(kHeader + ":left\n"), HasSubstr("line 7: a value is empty"));
  EXPECT_THAT(said(kHeader + "left\n"), HasSubstr("line 7: the series has no class"));
  EXPECT_THAT(said(kHeader), HasSubstr("contains no sequences"));
  EXPECT_THAT(said("@classLabel true a b\n"), HasSubstr("ends before the line @data"));
  EXPECT_THAT(said("@classLabel true a a\n@data\n1:a\n"), HasSubstr("line 1: class \"a\" is named twice"));
  EXPECT_THAT(said("@timeStamps true\n@data\n"), HasSubstr("time stamps"));
  EXPECT_THAT(said("@targetLabel true\n@data\n"), HasSubstr("regression"));
  EXPECT_THAT(said("@data\n1,2\n"), HasSubstr("line 1: the sequences have no classes"));
  for (const char* count : {"0", "-1", "two", "1.5", "9223372036854775807", "99999999999999999999", ""}) {
    EXPECT_THAT(said("@dimensions " + std::string(count) + "\n@classLabel true a b\n@data\n1:a\n"),
                AllOf(HasSubstr("line 1: @dimensions cannot be \"" + std::string(count) +
                                "\": it must be a whole number from 1 to 1000000"),
                      HasSubstr("hint: set it to the number of channels")));
  }
  EXPECT_THAT(said("@dimensions 2\n@classLabel true a b\n@data\n1:a\n"),
              HasSubstr("line 4: the series has 1 channel, but @dimensions says 2"));
  EXPECT_THAT(said("1,2:a\n"), HasSubstr("line 1: a header line must begin with @ or #"));
  EXPECT_THAT(said(""), HasSubstr("@data"));
}

TEST(TsFile, MayHaveLongLinesAndManyClasses) {
  const TemporaryFolder folder;
  std::string text = "@problemName", series;
  for (int i = 0; i < 1'000'000; ++i) text += " a";
  text += "\n@classLabel true";
  for (int i = 0; i < 50'000; ++i) {
    text += " " + std::to_string(i);
    series += "1:" + std::to_string(49'999 - i) + "\n";
  }
  const Source source = open_source(folder.write("many.ts", text + "\n@data\n" + series));
  EXPECT_EQ(source.dataset.classes().size(), 50'000u);
  EXPECT_EQ(source.dataset.store().label(0), 49'999);
}

int64_t most_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

TEST(CsvFolder, HoldsTheTextOfFewFilesAtATime) {
  if (lockstep::test::kSanitized) GTEST_SKIP() << "sanitizers keep memory that was given back";
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 8U << 20) text += "0." + std::string(1000, '1') + "\n";
  for (int i = 0; i < 24; ++i)
    folder.write("in/" + std::string(i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".csv", text);
  const std::string archive = (folder.path() / "x.tar").string();
  ASSERT_EQ(std::system(("tar -cf '" + archive + "' -C '" + folder.path().string() + "' in").c_str()), 0);
  const int64_t before = most_memory();
  for (const std::string& where : {(folder.path() / "in").string(), archive + "/in"})
    EXPECT_EQ(open_source(where).dataset.size(), 24);
  EXPECT_LT(most_memory() - before, int64_t{64} << 20);
}

TEST(CsvFolder, HasAFileForASequence) {
  const TemporaryFolder folder;
  folder.write("b/2.csv", "x,y\n1,2\n3,4\n\n");
  folder.write("a/1.csv", "5,6\n");
  folder.write("a/notes.txt", "");
  const Source source = open_source(folder.path());
  EXPECT_EQ(source.kind, "sequence folder");
  EXPECT_THAT(source.dataset.classes(), ElementsAre("a", "b"));
  ASSERT_EQ(source.dataset.size(), 2);
  EXPECT_THAT(read(source.dataset, 1, 2), ElementsAre(1, 3, 2, 4)) << "columns are channels";
  EXPECT_EQ(source.dataset.store().label(1), 1);

  folder.write("a/3.csv", "1,2\n3\n");
  EXPECT_THAT(open_failure(folder.path()),
              HasSubstr("a/3.csv\", line 2: the line has 1 value, but earlier lines have 2"));
  folder.write("a/3.csv", "x,y\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("the file has no time step"));
  folder.write("a/3.csv", "1,2\nx,y\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("line 2: \"x\" is not a finite number"));
  std::filesystem::remove(folder.path() / "a/3.csv");
  folder.write("4.csv", "1,2\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("is not in a class folder"));
  EXPECT_EQ(open_source(folder.path(), {.classes = {"a", "b"}, .unlabelled = true}).dataset.size(), 3);
}

// numpy.savetxt and pandas write numbers of 64 bits.
TEST(CsvFolder, TakesNumbersThatAreTooSmallAsZero) {
  const TemporaryFolder folder;
  folder.write("a/1.csv", "1e-50,-1e-300\n1e-40,2\n");
  folder.write("b/1.csv", "3,4\n");
  EXPECT_THAT(read(open_source(folder.path()).dataset, 0, 2), ElementsAre(0, 1e-40F, 0, 2));
  folder.write("b/1.csv", "3,1e50\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("\"1e50\" is not a finite number"));
  folder.write("b/1.csv", "3,4,\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("line 1: a value is empty"));
}

const std::string kMark = "\xef\xbb\xbf";  // of UTF-8, as Windows programs write it

TEST(TsFile, MayBeginWithAMarkAndHaveQuotes) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.ts", kMark + kHeader + "\"1\",2, \"+3\":4,5,6:right\n7:8:left\n");
  EXPECT_THAT(read(open_source(file).dataset, 0, 3), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(CsvFolder, MayBeginWithAMarkAndHaveQuotes) {
  const TemporaryFolder folder;
  folder.write("a/1.csv", kMark + "\"x\",\"y, in m\"\n\"1\",2\n3, \"+4\"\n");
  folder.write("b/2.csv", kMark + "5,6\n");
  const Dataset dataset = open_source(folder.path()).dataset;
  EXPECT_THAT(read(dataset, 0, 2), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(read(dataset, 1, 1), ElementsAre(5, 6)) << "the first line is no line of names";
}

TEST(CsvFolder, MayBeInUtf16) {
  const TemporaryFolder folder;
  std::string text = "\xff\xfe";
  for (const char c : std::string("x,y\r\n1,2\r\n3,4\r\n")) text += {c, '\0'};
  folder.write("a/1.csv", text);
  folder.write("b/2.csv", "5,6\n");
  EXPECT_THAT(read(open_source(folder.path()).dataset, 0, 2), ElementsAre(1, 3, 2, 4));
}

TEST(CsvFolder, MayHaveLinesThatEndInCarriageReturns) {
  const TemporaryFolder folder;
  folder.write("a/1.csv", "x,\"y \"\"up\"\", in m\"\r1,2\r3,4\r");
  folder.write("b/2.csv", "5,6\r\n");
  EXPECT_THAT(read(open_source(folder.path()).dataset, 0, 2), ElementsAre(1, 3, 2, 4));
}

// As Excel writes them where a comma is in numbers, and as "text with tabs".
TEST(CsvFolder, MayHaveOtherSeparators) {
  const TemporaryFolder folder;
  folder.write("b/2.csv", "5,6\n");
  for (const char* text :
       {"1;2\n3;4\n", "x;y\n1;2\n3;4\n", "1\t2\r\n3\t4\r\n", "sep=;\r\nx;y\r\n1;2\r\n3;4\r\n",
        "sep=\t\n1\t2\n3\t4\n", "SEP=,\n\nx,y\n1,2\n3,4\n", "\"sep=;\"\n1;2\n3;4\n",
        "sep=\t \r\n1\t2\n3\t4\n", "sep=;,,,\n1;2\n3;4\n", "# dev A; rate fast; unit g\n1,2\n3,4\n",
        "ax [g; raw],ay [g; raw]\n1,2\n3,4\n", "1\t,\t2\n3,4\n", "1,\t\t2\n3,4\n",
        "Sensor A; unit g\n1,2\n3,4\n", "Recording\tleft wrist\n1,2\n3,4\n"}) {
    folder.write("a/1.csv", text);
    EXPECT_THAT(read(open_source(folder.path()).dataset, 0, 2), ElementsAre(1, 3, 2, 4)) << text;
  }
  for (const char* text : {"sep=;\n1,5;2\n", "value;\n1,5\n2,5\n"}) {
    folder.write("a/1.csv", text);
    EXPECT_THAT(open_failure(folder.path()), AllOf(HasSubstr("line 2: \"1,5\" is not a finite number"),
                                                   HasSubstr("hint: write 1.5 with a")))
        << text;
  }
}

TEST(CsvFolder, OneFileWithoutValuesIsNoSequence) {
  const TemporaryFolder folder;
  for (const char* text : {"", "\n", "x,y\n", "sep=;\nx;y\n"}) {
    EXPECT_THAT(open_failure(folder.write("1.csv", text)),
                AllOf(HasSubstr("cannot read \""), HasSubstr("/1.csv\": the file has no lines with values")))
        << text;
  }
  for (const std::string& names : {std::string("x,y"), std::string(70'000, 'x')})
    EXPECT_THAT(open_failure(folder.write("1.csv", names + "\n1,2\n")),
                HasSubstr("is one CSV file, which is"));
}

TEST(CsvFolder, HintsSuitTheValue) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& text) {
    folder.write("a/1.csv", text);
    return open_failure(folder.path());
  };
  EXPECT_THAT(said("1,5;2,5\n"), HasSubstr("hint: separate the values of a line by commas"));
  EXPECT_THAT(said("time,x\n2020-01-01 00:00,1\n"), HasSubstr("remove columns of times or names"));
  EXPECT_THAT(said("\"1\"5,2\n"), HasSubstr("\"\"1\"5\" is not a finite number"));
  EXPECT_THAT(said(std::string("1,2\n\0\0\n", 7)), HasSubstr("line 2")) << "zeros of a damaged file";
  EXPECT_THAT(said("\"1,2\n"), HasSubstr("line 1: the line has a quote (\") without a second one"));
}

TEST(CsvFolder, NamesOfChannelsMayBeginAsNumbersDo) {
  const TemporaryFolder folder;
  for (const char* names : {"infrared,nanotesla", "2theta,1_x"}) {
    folder.write("a/1.csv", names + std::string("\n1,2\n3,4\n"));
    folder.write("b/2.csv", "5,6\n");
    EXPECT_THAT(read(open_source(folder.path()).dataset, 0, 2), ElementsAre(1, 3, 2, 4)) << names;
  }
  for (const char* line : {"1 2", "inf", "1e99"}) {
    folder.write("a/1.csv", line + std::string("\n3\n"));
    EXPECT_THAT(open_failure(folder.path()), HasSubstr("line 1: \"" + std::string(line) + "\" is not a"));
  }
}

TEST(CsvFolder, PartsOfADatasetThatMergeAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"train/run/1.csv", "train/walk/1.CSV", "test/run/2.csv", "test/walk/2.Csv"})
    folder.write(name, "1,2\n");
  const std::string root = folder.path().string();
  const Source merged = open_source(folder.path());
  EXPECT_EQ(merged.dataset.size(), 4);
  EXPECT_THAT(merged.warning, HasSubstr("lockstep train " + root + "/train --test " + root + "/test"));
  EXPECT_EQ(open_source(folder.path() / "train").warning, "");
  EXPECT_EQ(open_source(folder.path(), {.labels = Labels::top}).warning, "");
  std::filesystem::remove_all(folder.path() / "test");
  folder.write("test/2.csv", "1,2\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("/test\" has samples and no class folders"));
  EXPECT_EQ(open_source(folder.path(), {.classes = {"run", "walk"}, .unlabelled = true}).dataset.size(), 3);
}

TEST(CsvFolder, LosesNothingSilently) {
  const TemporaryFolder folder;
  for (const char* name : {"in/run/1.csv", "in/walk/1.csv", "in/rest/notes.txt"}) folder.write(name, "1\n");
  const std::filesystem::path in = folder.path() / "in";
  EXPECT_THAT(open_failure(in), AllOf(HasSubstr("/rest\" contains no CSV files"), HasSubstr("hint: remove")));
  std::filesystem::create_symlink("nowhere", in / "README");
  std::filesystem::create_symlink("nowhere", in / "run/2.csv");
  std::filesystem::create_directory_symlink("run", in / "jog");
  EXPECT_THAT(open_failure(in), AllOf(HasSubstr("contains 2 files that cannot be read: "),
                                      HasSubstr("jog/2.csv\": it is a broken link"), HasSubstr("run/2.csv")));
  const Source skipping = open_source(in, {.on_bad_sample = OnBadSample::skip});
  EXPECT_EQ(skipping.dataset.size(), 3);
  ASSERT_EQ(skipping.skipped.size(), 3u);
  EXPECT_EQ(skipping.skipped[1].source, (in / "rest").string());
  const std::string archive = (folder.path() / "x.tar").string();
  ASSERT_EQ(std::system(("tar -cf '" + archive + "' -C '" + folder.path().string() + "' in").c_str()), 0);
  EXPECT_THAT(open_failure(archive + "/in"),
              HasSubstr("/in/jog\": it is a broken link, a link in an archive"));
  EXPECT_EQ(open_source(in, {.classes = {"run"}, .unlabelled = true}).dataset.size(), 3);
}

TEST(Sequences, OfClassesThatAreNotUtf8AreRefused) {
  const TemporaryFolder folder;
  folder.write("in/a/1.csv", "1\n");
  folder.write("in/\xff/1.csv", "1\n");
  EXPECT_THAT(open_failure(folder.path() / "in"), HasSubstr("has a class \"\xff\" with a name that is not"));
  EXPECT_EQ(open_source(folder.path() / "in", {.classes = {"a"}, .unlabelled = true}).dataset.size(), 2);
  EXPECT_THAT(open_failure(folder.write("a.ts", "@classLabel true a \xff\n@data\n1:a\n")),
              AllOf(HasSubstr("a name that is not UTF-8"), HasSubstr("save the file that names the class")));
}

TEST(CsvFolder, MayHoldLinksToClassFolders) {
  const TemporaryFolder folder;
  folder.write("elsewhere/1.csv", "1\n");
  folder.write("in/a/1.csv", "5\n");
  std::filesystem::create_directory_symlink(folder.path() / "elsewhere", folder.path() / "in/b");
  const Source source = open_source(folder.path() / "in");
  EXPECT_THAT(source.dataset.classes(), ElementsAre("a", "b"));
  EXPECT_EQ(source.dataset.store().source(1), (folder.path() / "in/b/1.csv").string());
}

TEST(Sequences, OfTheCallersOwnAreChecked) {
  const auto said = [](Sequence sequence) {
    return failure([&] { make_sequences(2, {"a", "b"}, {std::move(sequence)}); });
  };
  EXPECT_EQ(said({.values = {1, 2, 3, 4}, .label = 1}), "");
  EXPECT_THAT(said({.values = {1, 2, 3}, .label = 1}),
              HasSubstr("\"sequence 0\" has 3 numbers, which cannot be divided into 2 channels"));
  EXPECT_THAT(said({.values = {}, .label = 1}), HasSubstr("0 numbers"));
  EXPECT_THAT(said({.values = {1, 2}, .label = 2}), HasSubstr("has the label 2, but there are 2 classes"));
  EXPECT_THAT(said({.values = {1, std::nanf("")}, .label = 0}), HasSubstr("not finite"));
  EXPECT_THAT(said({.values = {1, 2, 3, 4}, .time_step_labels = {0}}),
              HasSubstr("1 label of time steps instead of 2"));
}

TEST(Sequences, OfOtherChannelsOrImagesAreRefused) {
  const Dataset dataset = make_sequences(2, {"a", "b"}, {{.values = {1, 2}, .label = 0}});
  EXPECT_THAT(failure([&] { ImageSet(dataset, {}, 0); }),
              HasSubstr("the network needs images, but the data are sequences"));
  EXPECT_THAT(failure([&] { ImageSet(dataset, {.channels = 3, .kind = SampleKind::sequence}, 0); }),
              HasSubstr("has 2 channels, but the network needs 3"));
}

// Streams of 5, 2 and 3 steps in two slots, in pieces of 2: slot 0 plays streams 0 and 2, slot 1 stream 1.
TEST(StreamPieces, FollowOneAnotherInTheirSlot) {
  const Dataset streams = make_sequences(1, {"a", "b"},
                                         {{.values = {1, 2, 3, 4, 5}, .label = 0},
                                          {.values = {6, 7}, .label = 1},
                                          {.values = {8, 9, 10}, .label = 1}});
  const Dataset pieces = stream_pieces(streams, {.time_steps = 2, .slots = 2});
  ASSERT_EQ(pieces.size(), 10);
  std::vector<std::vector<float>> values;
  std::vector<int64_t> labels, continued;
  for (int64_t i = 0; i < pieces.size(); ++i) {
    std::vector<float> piece = read(pieces, i, 2);
    piece.resize(static_cast<size_t>(pieces.store().image_size(i).width));
    values.push_back(piece);
    labels.push_back(pieces.store().label(i));
    continued.push_back(pieces.store().continues(i));
  }
  using V = std::vector<float>;
  EXPECT_THAT(values, ElementsAre(V{1, 2}, V{6, 7}, V{3, 4}, V{}, V{5}, V{}, V{8, 9}, V{}, V{10}, V{}));
  EXPECT_THAT(labels, ElementsAre(0, 1, 0, -1, 0, -1, 1, -1, 1, -1));
  EXPECT_THAT(continued, ElementsAre(0, 0, 1, 0, 1, 0, 0, 0, 1, 0));
  EXPECT_EQ(pieces.store().source(2), "sequence 0, steps 2 to 3");
  EXPECT_THAT(failure([&] { stream_pieces(streams, {.time_steps = 0}); }),
              HasSubstr("at least one time step"));
}

TEST(StreamPieces, HaveTheLabelsOfTheirSteps) {
  const Dataset streams =
      make_sequences(1, {"a", "b"}, {{.values = {1, 2, 3}, .time_step_labels = {0, 1, -1}}});
  const Dataset pieces = stream_pieces(streams, {.time_steps = 2, .slots = 1});
  const auto labels = pieces.store().time_step_labels(1);
  EXPECT_THAT((std::vector<int64_t>(labels.begin(), labels.end())), ElementsAre(-1));
  EXPECT_EQ(pieces.store().label(0), -1);
  EXPECT_TRUE(pieces.store().labels_time_steps());
}

}  // namespace
}  // namespace lockstep::data
