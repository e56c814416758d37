// The .ts format of sktime and aeon: comments (#), a header of lines "@name value", then after @data one
// series per line: channels separated by colons, values separated by commas, the class last.
// https://www.aeon-toolkit.org/en/stable/api_reference/file_specifications/ts.html describes it.
#include <algorithm>
#include <span>
#include <unordered_map>

#include "lockstep/base/blanks.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/data/internal/sequence_text.h"

namespace lockstep::data {
namespace {

constexpr size_t kMostClasses = 1'000'000;
constexpr size_t kMostSequences = 10'000'000;
constexpr int64_t kMostChannels = 1'000'000;

// At most `most` characters, because a line can be as long as the file.
std::vector<std::string_view> words_of(std::string_view line, size_t most) {
  std::vector<std::string_view> words;
  for (line = without_blanks(line); !line.empty() && words.size() < most; line = without_blanks(line)) {
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

class TsReader {
 public:
  TsReader(const Files& files, const SourceOptions& options)
      : kind_(files.described("sequence file")),
        text_(text_of(files.read(files.path(files.names().front()), kMostSequenceBytes))),
        rest_(text_),
        place_{files.root()},
        options_(options) {}

  Source read() {
    read_header();
    check_class_names(classes_, place_.path, options_);
    std::string_view line;
    while (next_line(line)) {
      if (!line.empty() && line.front() != '#') read_series(line);
    }
    if (sequences_.empty())
      throw Error(ErrorCode::invalid_option, "\"" + place_.path + "\" contains no sequences");
    return source_of(channels_, classes_, std::move(sequences_), place_.path, kind_, options_);
  }

 private:
  bool next_line(std::string_view& line) {
    if (!data::next_line(rest_, line, place_)) return false;
    line = without_blanks(line);
    return true;
  }

  void read_header() {
    std::string_view line;
    while (next_line(line)) {
      if (line.empty() || line.front() == '#') continue;
      if (line.front() != '@')
        refuse(place_,
               "a header line must begin with @ or #, not with \"" + std::string(line.substr(0, 20)) + "\"",
               "put the values after a line @data");
      const std::vector<std::string_view> words = words_of(line, kMostClasses + 3);
      const std::string name = lower(words.front());
      const std::string value = words.size() > 1 ? lower(words[1]) : "";
      if (name == "@data") {
        if (!labelled_ && !options_.unlabelled)
          refuse(place_, "the sequences have no classes",
                 "add a line such as @classLabel true cat dog to the header");
        return;
      }
      if (name == "@timestamps" && value == "true")
        refuse(place_, "series with time stamps are not supported", "use values at equal time intervals");
      if (name == "@targetlabel" && value == "true")
        refuse(place_, "series with a number as target (regression) are not supported",
               "use series with classes");
      if (name == "@dimensions" || name == "@dimension") read_dimensions(value);
      if (name == "@classlabel" && value == "true") read_classes(std::span(words).subspan(2));
    }
    refuse(place_, "the file ends before the line @data",
           "write @classLabel true and the names of the classes, then @data, then a series in each line");
  }

  void read_dimensions(const std::string& value) {
    const auto number = parse_number<int64_t>(value);
    if (!number || *number < 1 || *number > kMostChannels) {
      refuse(place_,
             "@dimensions cannot be \"" + value.substr(0, 40) + "\": it must be a whole number from 1 to " +
                 std::to_string(kMostChannels),
             "set it to the number of channels of a series, which colons separate");
    }
    channels_ = *number;
  }

  void read_classes(std::span<const std::string_view> names) {
    labelled_ = true;
    if (names.empty() || names.size() > kMostClasses)
      refuse(place_, "@classLabel true names no classes, or too many");
    classes_.assign(names.begin(), names.end());
    labels_.clear();
    for (const std::string_view name : names) {
      if (!labels_.emplace(name, static_cast<int64_t>(labels_.size())).second)
        refuse(place_, "class \"" + std::string(name) + "\" is named twice");
    }
  }

  void read_series(std::string_view line) {
    Sequence sequence{.source = place_.path + "#" + std::to_string(sequences_.size())};
    if (labelled_) {
      const size_t colon = line.rfind(':');
      if (colon == std::string_view::npos)
        refuse(place_, "the series has no class", "write the values, a colon, then the class");
      sequence.label = label_of(without_blanks(line.substr(colon + 1)));
      line = line.substr(0, colon);
    }
    const int64_t channels = std::count(line.begin(), line.end(), ':') + 1;
    if (channels_ != 0 && channels != channels_) {
      refuse(place_, "the series has " + counted(channels, "channel") + ", but " +
                         (sequences_.empty() ? "@dimensions says " : "the first one has ") +
                         std::to_string(channels_));
    }
    channels_ = channels;
    int64_t steps = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const size_t colon = std::min(line.find(':'), line.size());
      const size_t before = sequence.values.size();
      append_numbers(line.substr(0, colon), ',', place_, sequence.values);
      line.remove_prefix(std::min(colon + 1, line.size()));
      const auto count = static_cast<int64_t>(sequence.values.size() - before);
      if (c == 0) steps = count;
      if (count != steps)
        refuse(place_, "channel " + std::to_string(c + 1) + " has " + counted(count, "value") +
                           ", but the first one has " + with_commas(steps));
    }
    if (sequences_.size() == kMostSequences)
      refuse(place_, "the file has more than the maximum of " + with_commas(kMostSequences) + " sequences");
    numbers_ += static_cast<int64_t>(sequence.values.size());
    if (numbers_ > kMostSequenceNumbers)
      refuse(place_,
             "the file has more than the maximum of " + with_commas(kMostSequenceNumbers) + " numbers");
    sequences_.push_back(std::move(sequence));
  }

  int64_t label_of(std::string_view name) const {
    const auto found = labels_.find(name);
    if (found == labels_.end())
      refuse(place_, "class \"" + std::string(name.substr(0, 40)) + "\" is not one of the " +
                         std::to_string(classes_.size()) + " classes of @classLabel");
    return found->second;
  }

  std::string kind_;
  std::string text_;
  std::string_view rest_;
  TextPlace place_;
  const SourceOptions& options_;
  bool labelled_ = false;
  std::vector<std::string> classes_;
  std::unordered_map<std::string_view, int64_t> labels_;  // keys are views into text_
  int64_t channels_ = 0;                                  // 0: unknown yet
  int64_t numbers_ = 0;
  std::vector<Sequence> sequences_;
};

}  // namespace

bool is_ts_name(std::string_view name) { return name.size() > 3 && lower(name).ends_with(".ts"); }

bool fits_ts(const Files& files) { return files.one_file() && is_ts_name(files.path(files.names().front())); }

Source open_ts(Files files, const SourceOptions& options) { return TsReader(files, options).read(); }

}  // namespace lockstep::data
