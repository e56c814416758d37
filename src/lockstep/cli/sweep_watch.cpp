#include "lockstep/cli/sweep_watch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <iostream>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/sweep_jobs.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/table_reader.h"

namespace lockstep::cli {
namespace {

constexpr int kMilliseconds = 1000;  // between two looks at the sweep's files
constexpr int kHeadLines = 1;
constexpr int kFootLines = 3;  // and those of a mark
// The first that fits.
constexpr std::array kKeys{"q quit  ↑↓←→ move  s stop  r restart  n note  o O sort  / filter  S stop sweep",
                           "q quit ↑↓←→ s stop r restart n note o O sort / filter S stop all",
                           "q quit ↑↓←→ s r n o O / S"};

// Keys arrive at once and are not shown. The terminal is as before when this ends.
class RawTerminal {
 public:
  RawTerminal() : is_set_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_set_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawTerminal() {
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool is_set_;
};

std::string marked(const std::string& line, int width) {
  const std::string text(cut(line, width));
  return "\033[7m" + text + std::string(static_cast<size_t>(std::max(0, width - width_of(text))), ' ') +
         "\033[0m";
}

// What is typed is seen to its end. Before that the prompt is, from its beginning.
std::string prompt_line(const SweepView& view, int width) {
  std::string line = view.prompt + printable(view.typed) + "▏";
  if (view.typed.empty()) return std::string(cut(line, width));
  const auto is_within_character = [&] { return (static_cast<unsigned char>(line.front()) & 0xC0) == 0x80; };
  while (width_of(line) > width) {
    do line.erase(0, 1);
    while (is_within_character());
  }
  return line;
}

winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    size.ws_row = 24;
    size.ws_col = 80;
  }
  return size;
}

std::string next_column(const sweep::Table& table, const std::string& sort) {
  const std::string now = sort.starts_with("-") ? sort.substr(1) : sort;
  std::vector<std::string> names{"trial", "result", "state", "steps", "time"};
  for (const sweep::Parameter& parameter : table.spec.space.parameters()) names.push_back(parameter.name);
  const auto found = std::find(names.begin(), names.end(), now);
  return found == names.end() || found + 1 == names.end() ? names.front() : *(found + 1);
}

class Watch {
 public:
  Watch(sweep::SweepPaths paths, const SweepRows& rows) : paths_(std::move(paths)), reader_(paths_) {
    view_.rows = rows;
    view_.copy = sweep::copy_text(paths_);
  }

  int run() {
    launch::StopSignals signals("");
    const RawTerminal raw;
    std::cout << "\033[?1049h\033[?25l" << std::flush;
    std::exception_ptr failed;
    try {
      look();
      while (!signals.token().stop_requested() && !quits_) {
        draw();
        read_keys();
        look();
      }
    } catch (const Error&) {
      failed = std::current_exception();
    }
    std::cout << "\033[?25h\033[?1049l" << std::flush;
    if (failed) std::rethrow_exception(failed);
    std::cout << best_rows_text(table_, paths_.folder.string(), terminal_size().ws_col) << std::flush;
    return signals.signal() == 0 || signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
  }

 private:
  void look() {
    table_ = reader_.read();
    if (was_going_on_ && !table_.is_going_on) view_.message = end_text() + "; q quits";
    was_going_on_ = table_.is_going_on;
  }

  std::string end_text() {
    return is_complete(table_, view_.planned.of(table_.spec))
               ? "the sweep is complete"
               : "the sweep is not complete, and no program works on it";
  }

  void draw() {
    const winsize size = terminal_size();
    std::string text = "\033[H";
    const std::vector<std::string> lines = sweep_screen(table_, view_, size.ws_col, size.ws_row);
    for (size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + "\033[K";
    std::cout << text << "\033[J" << std::flush;
  }

  void read_keys() {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, kMilliseconds) <= 0) return;
    char bytes[64];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) quits_ = true;
    const std::string keys(bytes, static_cast<size_t>(std::max<ssize_t>(0, got)));
    for (size_t at = 0; at < keys.size(); ++at) {
      const bool is_arrow = keys[at] == '\033' && at + 2 < keys.size() && keys[at + 1] == '[';
      if (is_arrow) {
        move(keys.substr(at + 2));
        at += keys[at + 2] == '5' || keys[at + 2] == '6' ? 3 : 2;
      } else if (!view_.prompt.empty()) {
        type(keys[at]);
      } else {
        press(keys[at]);
      }
    }
  }

  void move(const std::string& code) {
    const auto most = 4 + std::ssize(table_.spec.space.parameters());  // of six columns and the parameters
    if (code[0] == 'C') view_.left_out = std::min<int64_t>(view_.left_out + 1, most);
    if (code[0] == 'D') view_.left_out = std::max<int64_t>(0, view_.left_out - 1);
    const int by = code[0] == 'A' ? -1 : code[0] == 'B' ? 1 : code[0] == '5' ? -10 : code[0] == '6' ? 10 : 0;
    const std::vector<const sweep::Row*> rows = chosen_rows(table_, view_.rows);
    const auto now =
        std::find_if(rows.begin(), rows.end(), [&](const auto* row) { return row->trial == view_.trial; });
    if (rows.empty()) return;
    const auto index = std::clamp<std::ptrdiff_t>((now == rows.end() ? 0 : now - rows.begin()) + by, 0,
                                                  static_cast<std::ptrdiff_t>(rows.size()) - 1);
    view_.trial = rows[static_cast<size_t>(index)]->trial;
  }

  void press(char key) {
    view_.message.clear();
    const std::string trial = std::to_string(view_.trial);
    switch (key) {
      case 'q':
        quits_ = true;
        break;
      case 'k':
        move("A");
        break;
      case 'j':
        move("B");
        break;
      case 'o':
        view_.rows.sort = next_column(table_, view_.rows.sort);
        break;
      case 'O':
        reverse();
        break;
      case '/':
        ask("filter: ", &Watch::filter, view_.rows.filter);
        break;
      case 'n':
        ask_of_trial("note of trial " + trial + ": ", &Watch::note);
        break;
      case 's':
        if (has_rows() && !table_.can_end(view_.trial)) {
          view_.message = "trial " + trial + " is not running";
        } else {
          ask_of_trial("end trial " + trial + " with the result that it has? (y) ", &Watch::stop);
        }
        break;
      case 'r':
        ask_of_trial("forget trial " + trial + " and start it again? (y) ", &Watch::restart);
        break;
      case 'S':
        ask("stop the sweep? its trials are saved (y) ", &Watch::stop_sweep, "");
        break;
      default:
        break;
    }
  }

  void ask(std::string prompt, void (Watch::*then)(), std::string typed) {
    view_.prompt = std::move(prompt);
    view_.typed = std::move(typed);
    then_ = then;
  }

  // The marked row may be another one when the answer comes: rows that do not fit the filter any more go.
  void ask_of_trial(std::string prompt, void (Watch::*then)()) {
    asked_trial_ = view_.trial;
    if (has_rows()) {
      ask(std::move(prompt), then, "");
    } else {
      view_.message = "no trial is shown";
    }
  }

  bool has_rows() const { return !chosen_rows(table_, view_.rows).empty(); }

  void type(char key) {
    if (key == '\n' || key == '\r') {
      view_.prompt.clear();
      try {
        (this->*then_)();
      } catch (const Error& error) {
        view_.message = error.message() + (error.hint().empty() ? "" : "; " + error.hint());
      }
    } else if (key == '\033') {
      view_.prompt.clear();
    } else if (key == '\177' || key == '\b') {
      while (!view_.typed.empty() && (static_cast<unsigned char>(view_.typed.back()) & 0xC0) == 0x80)
        view_.typed.pop_back();
      if (!view_.typed.empty()) view_.typed.pop_back();
    } else if (static_cast<unsigned char>(key) >= ' ') {
      view_.typed += key;
      if (view_.prompt.ends_with("(y) ")) type('\n');
    }
  }

  void reverse() {
    std::string& sort = view_.rows.sort;
    sort = sort.starts_with("-") ? sort.substr(1) : "-" + sort;
  }
  bool agrees() const { return view_.typed == "y" || view_.typed == "Y"; }

  void filter() {
    const std::string before = std::exchange(view_.rows.filter, view_.typed);
    try {
      (void)chosen_rows(table_, view_.rows);
    } catch (const Error&) {
      view_.rows.filter = before;
      throw;
    }
  }
  void note() {
    sweep::annotate(paths_, asked_trial_, view_.typed);
    view_.message = "noted";
  }
  void stop() {
    if (!agrees()) return;
    if (!table_.can_end(asked_trial_)) {
      view_.message = "trial " + std::to_string(asked_trial_) + " is not running";
      return;
    }
    sweep::ask_to_stop(paths_, asked_trial_);
    view_.message = "asked trial " + std::to_string(asked_trial_) + " to end";
  }
  void restart() {
    if (!agrees()) return;
    sweep::restart_now_or_ask(paths_, asked_trial_);
    view_.message = "trial " + std::to_string(asked_trial_) + " starts again" +
                    (table_.is_going_on ? "" : " when the sweep is continued");
  }
  void stop_sweep() {
    if (!agrees()) return;
    ask_sweep_to_stop(paths_);
    view_.message = "asked the sweep to stop";
  }

  sweep::SweepPaths paths_;
  sweep::TableReader reader_;
  sweep::Table table_{};
  SweepView view_{};
  void (Watch::*then_)() = nullptr;
  int64_t asked_trial_ = -1;  // that the prompt names
  bool was_going_on_ = false;
  bool quits_ = false;
};

// That it is a copy, and that another sweep may give another table; none if neither is so. Where they leave
// no line for a row, the last ones are left out.
std::vector<std::string> mark_lines(const std::string& copy, const sweep::Table& table, int width,
                                    int height) {
  std::string mark = not_reproducible_text(table.spec);
  if (!copy.empty()) mark = printable(copy) + (mark.empty() ? "" : "; ") + mark;
  if (mark.empty()) return {};
  std::vector<std::string> lines = split(wrap(mark, width, 0), '\n');
  const auto most = static_cast<size_t>(std::max(0, height - kHeadLines - kFootLines - 1));
  lines.resize(std::min(lines.size(), most));
  for (std::string& line : lines) line = cut(line, width);
  return lines;
}

// The heading and a line for each row. Columns behind the first are left out as view.left_out says, but none
// where all of the rest fits without that.
std::vector<std::string> table_lines(const sweep::Table& table, const std::vector<const sweep::Row*>& rows,
                                     SweepView& view, int width) {
  std::vector<std::string> lines;
  for (int64_t left_out = 0; left_out <= view.left_out; ++left_out) {
    lines = split(sweep_rows_text(table, rows, left_out), '\n');
    const auto fits = [&](const std::string& line) { return width_of(line) <= width; };
    if (std::ranges::all_of(lines, fits)) view.left_out = left_out;
  }
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

std::vector<std::string> sweep_screen(const sweep::Table& table, SweepView& view, int width, int height) {
  const std::vector<const sweep::Row*> rows = chosen_rows(table, view.rows);
  const auto has = [&](int64_t trial) {
    return std::find_if(rows.begin(), rows.end(), [&](const auto* row) { return row->trial == trial; });
  };
  if (!rows.empty() && has(view.trial) == rows.end()) view.trial = rows.front()->trial;
  const std::vector<std::string> all = table_lines(table, rows, view, width);
  const std::vector<std::string> foot = mark_lines(view.copy, table, width, height);
  const int64_t shown = std::max<int64_t>(1, height - kHeadLines - kFootLines - std::ssize(foot));
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t mark = rows.empty() ? 0 : has(view.trial) - rows.begin();
  view.first = std::clamp(view.first, std::max<int64_t>(0, mark - shown + 1), mark);
  view.first = std::clamp<int64_t>(view.first, 0, std::max<int64_t>(0, count - shown));
  std::vector<std::string> lines{"\033[1m" + std::string(cut(all.empty() ? "" : all.front(), width)) +
                                 "\033[0m"};
  for (int64_t i = view.first; i < std::min(count, view.first + shown); ++i) {
    const std::string& line = all[static_cast<size_t>(i) + 1];
    lines.push_back(i == mark ? marked(line, width) : std::string(cut(line, width)));
  }
  const bool is_reversed = view.rows.sort.starts_with("-");
  const std::string order =
      "sorted by " + view.rows.sort.substr(is_reversed ? 1 : 0) + (is_reversed ? " backwards" : "") +
      (view.rows.filter.empty() ? "" : ", filter " + quote(view.rows.filter)) +
      (count > shown
           ? ", " + std::to_string(view.first + 1) + " to " +
                 std::to_string(std::min(count, view.first + shown)) + " of " + std::to_string(count)
           : "");
  lines.emplace_back(cut(sweep_counts_text(table, view.planned.of(table.spec)) + "; " + order, width));
  lines.insert(lines.end(), foot.begin(), foot.end());
  if (!view.prompt.empty()) {
    lines.push_back(prompt_line(view, width));
  } else {
    lines.emplace_back(cut(printable(view.message), width));
  }
  const auto keys = std::ranges::find_if(kKeys, [&](const char* text) { return width_of(text) <= width; });
  lines.push_back("\033[2m" + std::string(cut(keys == kKeys.end() ? kKeys.back() : *keys, width)) +
                  "\033[0m");
  return lines;
}

int watch_on_terminal(const sweep::SweepPaths& paths, const SweepRows& rows) {
  return Watch(paths, rows).run();
}

}  // namespace lockstep::cli
