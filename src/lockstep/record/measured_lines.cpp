#include "lockstep/record/measured_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>

#include "lockstep/record/event_kinds.h"

namespace lockstep::record {
namespace {

constexpr size_t kMostForms = 8;  // that are remembered
constexpr size_t kMostThreads = 8;
constexpr size_t kPart = size_t{1} << 18;       // of a text, for one thread
constexpr size_t kMostBytes = size_t{1} << 16;  // of a line that is not unusual
constexpr double kMostDrawable = 1e300;
constexpr double kMostCount = 9007199254740992.0;  // 2^53

bool is_measured(std::string_view kind) {
  return kind == Step::kind || kind == Validation::kind || kind == Average::kind;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

enum class What { kind, step, epoch, time, count, number, other };

// Goes along a line. Each function returns whether it found what it looks for, and leaves the place after it.
class Walker {
 public:
  explicit Walker(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  const char* at() const { return at_; }
  bool is_at_end() const { return at_ == end_; }

  bool pass(std::string_view text) {
    if (static_cast<size_t>(end_ - at_) < text.size() || !std::equal(text.begin(), text.end(), at_))
      return false;
    at_ += text.size();
    return true;
  }

  bool pass(char letter) {
    if (at_ == end_ || *at_ != letter) return false;
    ++at_;
    return true;
  }

  void pass_spaces() {
    while (at_ != end_ && *at_ == ' ') ++at_;
  }

  // Text of plain letters, which is the same in JSON.
  bool read_text(std::string_view& text) {
    if (!pass('"')) return false;
    const char* const begin = at_;
    while (at_ != end_ && *at_ >= ' ' && *at_ <= '~' && *at_ != '"' && *at_ != '\\') ++at_;
    text = {begin, static_cast<size_t>(at_ - begin)};
    return pass('"');
  }

  // As JSON writes it; also the texts that to_line makes of numbers that are not finite.
  bool read_number(double& value) {
    if (at_ != end_ && *at_ == '"') return read_not_finite(value);
    const char* const begin = at_;
    const bool is_negative = pass('-');
    const char* const digits = at_;
    uint64_t whole = 0;
    while (at_ != end_ && is_digit(*at_)) whole = whole * 10 + static_cast<uint64_t>(*at_++ - '0');
    const auto count = at_ - digits;
    if (count == 0 || (count > 1 && *digits == '0')) return false;
    const bool is_whole = at_ == end_ || (*at_ != '.' && *at_ != 'e' && *at_ != 'E');
    constexpr std::ptrdiff_t kExactDigits = 15;
    if (is_whole && count <= kExactDigits) {
      value = is_negative ? -static_cast<double>(whole) : static_cast<double>(whole);
      return true;
    }
    if (!is_whole && *at_ == '.' && (at_ + 1 == end_ || !is_digit(at_[1]))) return false;
    const auto [after, error] = std::from_chars(begin, end_, value);
    if (error != std::errc()) return false;
    at_ = after;
    if (std::abs(value) > kMostDrawable)
      value = std::copysign(std::numeric_limits<double>::infinity(), value);
    return true;
  }

  bool read_count(double& value) {
    const char* const begin = at_;
    if (!read_number(value) || value < 0 || value >= kMostCount) return false;
    return std::all_of(begin, at_, is_digit);
  }

  // A truth value, or an array of numbers.
  bool pass_other() {
    if (pass("true") || pass("false")) return true;
    if (!pass('[')) return false;
    pass_spaces();
    if (pass(']')) return true;
    while (true) {
      double value = 0;
      if (!read_number(value)) return false;
      pass_spaces();
      if (pass(']')) return true;
      if (!pass(',')) return false;
      pass_spaces();
    }
  }

 private:
  bool read_not_finite(double& value) {
    std::string_view text;
    if (!read_text(text)) return false;
    if (text == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (text == "inf")
      value = std::numeric_limits<double>::infinity();
    else if (text == "-inf")
      value = -std::numeric_limits<double>::infinity();
    else
      return false;
    return true;
  }

  const char* at_;
  const char* const end_;
};

// The text of a line with gaps for its values. Other lines of the same form are compared with it, which is
// much faster than to read them.
class Form {
 public:
  /// Whether the line is one that read_measured_lines reads.
  bool learn(std::string_view line) {
    Walker walker(line);
    literal_begins_ = walker.at();
    if (!learn_object(walker, false) || !walker.is_at_end() || !is_measured(keys_->kind)) return false;
    if (!has_values_ || !has(What::kind) || !has(What::step)) return false;
    end_ = text_from_literal(walker);
    return true;
  }

  /// Adds a row, or leaves `numbers` as it was.
  bool read(std::string_view line, std::vector<double>& numbers) const {
    const size_t before = numbers.size();
    numbers.resize(before + MeasuredLines::places + keys_->names.size());
    numbers[before + MeasuredLines::epoch] = numbers[before + MeasuredLines::time] = 0;
    if (read_row(line, numbers.data() + before)) return true;
    numbers.resize(before);
    return false;
  }

  const std::shared_ptr<MeasuredKeys>& keys() const { return keys_; }

 private:
  struct Gap {
    std::string before;  // the text between the last gap and this one
    What what;
    size_t place;  // in the row
  };

  bool read_row(std::string_view line, double* row) const {
    Walker walker(line);
    double count = 0;
    for (const Gap& gap : gaps_) {
      if (!walker.pass(gap.before)) return false;
      switch (gap.what) {
        case What::kind:
          break;
        case What::step:
        case What::epoch:
          if (!walker.read_count(row[gap.place])) return false;
          break;
        case What::count:
          if (!walker.read_count(count)) return false;
          break;
        case What::time:
          if (!walker.read_number(row[gap.place]) || !std::isfinite(row[gap.place])) return false;
          break;
        case What::number:
          if (!walker.read_number(row[gap.place])) return false;
          break;
        case What::other:
          if (!walker.pass_other()) return false;
          break;
      }
    }
    return walker.pass(end_) && walker.is_at_end();
  }

  bool has(What what) const {
    return std::any_of(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.what == what; });
  }

  bool learn_object(Walker& walker, bool is_of_values) {
    if (!walker.pass('{')) return false;
    walker.pass_spaces();
    if (walker.pass('}')) return true;
    std::vector<std::string_view> keys;
    while (true) {
      std::string_view key;
      if (!walker.read_text(key) || std::find(keys.begin(), keys.end(), key) != keys.end()) return false;
      keys.push_back(key);
      walker.pass_spaces();
      if (!walker.pass(':')) return false;
      walker.pass_spaces();
      if (!(is_of_values ? learn_value(walker, key) : learn_part(walker, key))) return false;
      walker.pass_spaces();
      if (walker.pass('}')) return true;
      if (!walker.pass(',')) return false;
      walker.pass_spaces();
    }
  }

  bool learn_part(Walker& walker, std::string_view key) {
    double value = 0;
    if (key == "kind") {
      std::string_view kind;
      if (!walker.read_text(kind)) return false;
      keys_->kind = kind;
      add_gap(walker, What::kind, 0);  // the text before it contains the kind
      return true;
    }
    if (key == "values") return has_values_ = learn_object(walker, true);
    if (key == "step")
      add_gap(walker, What::step, MeasuredLines::step);
    else if (key == "epoch")
      add_gap(walker, What::epoch, MeasuredLines::epoch);
    else if (key == "time")
      add_gap(walker, What::time, MeasuredLines::time);
    else if (key == "rank" || key == "attempt" || key == "sequence")
      add_gap(walker, What::count, 0);
    else
      return false;
    return pass_number(walker, value);
  }

  bool learn_value(Walker& walker, std::string_view key) {
    double value = 0;
    const Walker before = walker;
    add_gap(walker, What::number, MeasuredLines::places + keys_->names.size());
    if (pass_number(walker, value)) {
      keys_->names.emplace_back(key);
      return true;
    }
    if (walker.at() != before.at()) return false;  // such as other text
    gaps_.back().what = What::other;
    keys_->others.emplace_back(key);
    if (!walker.pass_other()) return false;
    literal_begins_ = walker.at();
    return true;
  }

  bool pass_number(Walker& walker, double& value) {
    if (!walker.read_number(value)) return false;
    literal_begins_ = walker.at();
    return true;
  }

  void add_gap(const Walker& walker, What what, size_t place) {
    gaps_.push_back({text_from_literal(walker), what, place});
    literal_begins_ = walker.at();
  }

  std::string text_from_literal(const Walker& walker) const { return {literal_begins_, walker.at()}; }

  std::shared_ptr<MeasuredKeys> keys_ = std::make_shared<MeasuredKeys>();
  std::vector<Gap> gaps_;
  std::string end_;  // the text after the last gap
  const char* literal_begins_ = nullptr;
  bool has_values_ = false;
};

class Reader {
 public:
  std::vector<MeasuredLines> read(std::string_view text) {
    while (!text.empty()) {
      const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
      take(text.substr(0, size));
      text.remove_prefix(size);
    }
    return std::move(lines_);
  }

 private:
  // line: with its end
  void take(std::string_view line) {
    const std::string_view content = line.substr(0, line.size() - 1);
    if (form_ != nullptr && form_->read(content, lines_.back().numbers)) {
      extend(line);
      return;
    }
    std::vector<double> row;
    form_ = form_of(content, row);
    if (form_ == nullptr && !lines_.empty() && !lines_.back().keys) {
      extend(line);
      return;
    }
    lines_.push_back({.text = line,
                      .keys = form_ == nullptr ? nullptr : form_->keys(),
                      .numbers = std::move(row),
                      .last = content});
  }

  void extend(std::string_view line) {
    lines_.back().text = {lines_.back().text.data(), lines_.back().text.size() + line.size()};
    lines_.back().last = line.substr(0, line.size() - 1);
  }

  const Form* form_of(std::string_view line, std::vector<double>& row) {
    if (line.size() > kMostBytes) return nullptr;
    for (const auto& form : forms_) {
      if (form->read(line, row)) return form.get();
    }
    auto form = std::make_unique<Form>();
    if (!form->learn(line) || !form->read(line, row)) return nullptr;
    if (forms_.size() < kMostForms) forms_.emplace_back();
    return (forms_[next_++ % kMostForms] = std::move(form)).get();
  }

  std::vector<MeasuredLines> lines_;
  std::vector<std::unique_ptr<Form>> forms_;
  size_t next_ = 0;
  const Form* form_ = nullptr;  // of the last line
};

// Parts of whole lines.
std::vector<std::string_view> parts_of(std::string_view text) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t count = std::clamp<size_t>(text.size() / kPart, 1, std::min(kMostThreads, cores));
  std::vector<std::string_view> parts;
  for (size_t i = count; i > 1; --i) {
    const size_t end = text.find('\n', text.size() / i);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
    if (text.empty()) return parts;
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

std::vector<MeasuredLines> read_measured_lines(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text);
  std::vector<std::vector<MeasuredLines>> read(parts.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < parts.size(); ++i)
      threads.emplace_back([&, i] { read[i] = Reader().read(parts[i]); });
    read[0] = Reader().read(parts[0]);
  }
  std::vector<MeasuredLines> all = std::move(read[0]);
  for (size_t i = 1; i < read.size(); ++i) std::move(read[i].begin(), read[i].end(), std::back_inserter(all));
  return all;
}

}  // namespace lockstep::record
