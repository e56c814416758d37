// What a job has written: its diary, its results, the live progress of its run, and what it puts out itself.
#include "lockstep/cli/job_output.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/job_places.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/jobs/attempt_error.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/job_store.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/view/views.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobState;
using jobs::JobView;

constexpr std::chrono::milliseconds kOutputInterval{100};
// Names in the folder of job fetch.
constexpr const char* kDiaryFile = "diary";
constexpr const char* kValuesFile = "values.json";
constexpr const char* kRunFolder = "run";

struct DiaryChoice {
  int64_t rank = -1;
  int64_t attempt = 0;
  bool follow = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Lines");
    field("rank", self.rank, "only the lines of this rank; -1: all", between(-1, 1'000'000));
    field("attempt", self.attempt, "of this attempt, from 1; 0: the newest", between(0, 1'000'000));
    field("follow", self.follow, "go on with what is written, until the job is over");
  };
};

struct FetchChoice {
  bool checkpoints = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Files");
    field("checkpoints", self.checkpoints, "also the checkpoints of its run");
  };
};

struct AttachChoice {
  bool plot = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("plot", self.plot, "draw the curves in the terminal");
  };
};

// "[rank 2] " of lockstep run, "2: " of srun; 0 for a line without such a beginning.
int64_t rank_of(std::string_view line, size_t& begin) {
  constexpr std::string_view kOurs = "[rank ";
  begin = 0;
  const bool is_ours = line.starts_with(kOurs);
  const size_t first = is_ours ? kOurs.size() : line.find_first_not_of(' ');
  const std::string_view end = is_ours ? "] " : ": ";
  const size_t at = line.find(end);
  if (first == std::string_view::npos || at == std::string_view::npos || at <= first) return 0;
  const auto rank = parse_number<int64_t>(line.substr(first, at - first));
  if (!rank || *rank < 0) return 0;
  begin = at + end.size();
  return *rank;
}

// Prints what is added to a diary. It may be larger than memory, and so may a line of it.
class Diary {
 public:
  Diary(fs::path file, int64_t rank, std::stop_token stop = {})
      : file_(std::move(file)), rank_(rank), stop_(std::move(stop)) {}

  /// What was added, until a stop is requested; `is_over`: also a last line without its end.
  void print_new(Console& console, bool is_over) {
    std::error_code code;
    if (!fs::exists(file_, code)) return;
    constexpr size_t kPiece = 1 << 16;
    const OpenFile file(file_, O_RDONLY);
    std::string piece(kPiece, '\0');
    while (!stop_.stop_requested()) {
      const size_t got = file.read_at(offset_, piece);
      if (got == 0) break;
      offset_ += static_cast<int64_t>(got);
      const std::string_view text(piece.data(), got);
      console.print(rank_ < 0 ? text : of_rank(text));
    }
    if (!is_over || stop_.stop_requested()) return;
    std::string rest = begin_.empty() ? "" : take_beginning();
    if (is_shown_.value_or(false)) rest += "\n";
    is_shown_.reset();
    console.print(rest);
  }

 private:
  std::string of_rank(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
      text.remove_prefix(line.size());
      const bool is_complete = line.back() == '\n';
      if (is_shown_) {
        if (*is_shown_) shown += line;
      } else {
        begin_ += line;
        if (is_complete || begin_.size() >= kMostBeforeText) shown += take_beginning();
      }
      if (is_complete) is_shown_.reset();
    }
    return shown;
  }

  // What is shown of the beginning of a line, which says whose it is.
  std::string take_beginning() {
    size_t text = 0;
    is_shown_ = rank_of(begin_, text) == rank_;
    std::string shown = *is_shown_ ? begin_.substr(text) : "";
    begin_.clear();
    return shown;
  }

  static constexpr size_t kMostBeforeText = 64;  // letters; a number of a rank has at most 19

  fs::path file_;
  int64_t rank_;
  std::stop_token stop_;
  int64_t offset_ = 0;
  std::string begin_;             // of a line of which it is not known yet whether it is shown
  std::optional<bool> is_shown_;  // the line of which a part was read
};

// Calls `look` until it returns false or a signal asks to end. False after a signal.
template <class Look>
bool look_until_over(const launch::StopSignals& signals, const Look& look) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (look()) {
    if (signals.token().stop_requested()) return false;
    never.wait_for(lock, signals.token(), kOutputInterval, [] { return false; });
  }
  return true;
}

// Shows what is added to the run of a job, or to its folds, one after the other.
class FollowedRuns {
 public:
  FollowedRuns(fs::path folder, bool plot, Console& console)
      : folder_(std::move(folder)), plot_(plot), console_(console) {}

  void poll() {
    while (true) {
      const std::vector<fs::path> runs = jobs::runs_in(folder_);
      if (follower_) follower_->poll([&](const record::Event& event) { progress_->show(event); });
      if (begun_ == runs.size()) return;
      finish();
      begin(runs[begun_++]);
    }
  }

  void finish() {
    if (progress_) progress_->finish();
  }

 private:
  void begin(const fs::path& run) {
    if (const int64_t folds = jobs::folds_in(folder_); folds > 0)
      console_.print((begun_ > 1 ? "\nfold " : "fold ") + std::to_string(begun_) + " of " +
                     std::to_string(folds) + printable(", in " + run.string()) + "\n");
    progress_ = view::progress(stdout, {.plot = plot_});
    follower_.emplace(run);
  }

  const fs::path folder_;
  const bool plot_;
  Console& console_;
  size_t begun_ = 0;  // runs
  std::unique_ptr<view::View> progress_;
  std::optional<record::Follower> follower_;
};

// The signal that asked to end; 0: the job is over.
int follow_diary(const JobPaths& paths, int64_t rank, Console& console) {
  launch::StopSignals signals("");
  int64_t attempt = 0;
  std::optional<Diary> diary;
  JobWatch watch(console, signals.token());
  const bool is_over = look_until_over(signals, [&] {
    const JobView view = watch.now(paths);
    if (view.attempt != attempt) {
      if (diary) {
        diary->print_new(console, /*is_over=*/true);
        console.print("--- attempt " + std::to_string(view.attempt) + " ---\n");
      }
      attempt = view.attempt;
      diary.emplace(paths.diary(attempt), rank, signals.token());
    }
    const bool goes_on = !jobs::is_over(view);
    if (diary) diary->print_new(console, !goes_on);
    return goes_on || signals.token().stop_requested();
  });
  return is_over ? 0 : signals.signal();
}

// Ctrl-C is how a command that follows ends.
int status_after(int signal) { return signal == 0 || signal == SIGINT ? 0 : launch::kSignalStatus + signal; }

// Copies a file or a folder with all in it; counts the files.
int64_t copy_in(const fs::path& from, const fs::path& to, const std::vector<std::string>& without = {}) {
  int64_t files = 0;
  std::error_code code;
  if (fs::is_regular_file(from, code)) {
    make_folders(to.parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, code);
    if (code) throw errno_error(code.value(), "copy", from.string());
    return 1;
  }
  if (!fs::is_directory(from, code)) return 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink() || name.starts_with(".") ||
        std::find(without.begin(), without.end(), name) != without.end())
      continue;
    files += copy_in(entry.path(), to / name);
  }
  return files;
}

// Files that the program has put out have their own names, except those that are already a job's.
int64_t copy_program_files(const fs::path& from, const fs::path& to, bool has_run, Console& console) {
  constexpr const char* kAside = "program-files";
  std::vector<std::string> taken{kDiaryFile, kValuesFile, jobs::kErrorFile};
  if (has_run) taken.emplace_back(kRunFolder);
  int64_t files = copy_in(from, to, taken);
  for (const std::string& name : taken) {
    const int64_t aside = copy_in(from / name, to / kAside / name);
    if (aside > 0)
      console.note("the program's own " + name + " is in " + printable((to / kAside).string()) + "\n");
    files += aside;
  }
  return files;
}

std::string closing_words(const JobView& view) {
  return printable("job " + view.id + ": " + state_word(view) +
                   (view.reason.empty() ? "" : ": " + view.reason)) +
         "\n";
}

JobPaths job_of(const Call& call, Console& console) {
  JobPaths paths = jobs::find_job(jobs::jobs_folder(), call.words.front());
  look_at_local_queue(paths.folder.parent_path(), console);
  return paths;
}

Json value_json(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const Json::exception&) {
    return text;
  }
}

}  // namespace

std::vector<FieldInfo> job_diary_fields() { return fields_of<DiaryChoice>(); }
std::vector<FieldInfo> job_fetch_fields() { return fields_of<FetchChoice>(); }
std::vector<FieldInfo> job_attach_fields() { return fields_of<AttachChoice>(); }

int run_job_diary(const Call& call, Console& console) {
  const auto choice = settings_of<DiaryChoice>(call);
  const JobPaths paths = job_of(call, console);
  if (choice.follow) return status_after(follow_diary(paths, choice.rank, console));
  const int64_t newest = jobs::newest_attempt(paths), attempt = choice.attempt > 0 ? choice.attempt : newest;
  if (attempt > newest)
    throw Error(ErrorCode::not_found,
                "job " + jobs::shown_id(paths) + " has no attempt " + with_commas(attempt) +
                    "; the newest is " + with_commas(newest),
                "lockstep job show " + jobs::shown_id(paths) + " tells what it does");
  if (attempt == 0) {
    console.note("job " + jobs::shown_id(paths) + " has not begun\n");
    return 0;
  }
  Diary(paths.diary(attempt), choice.rank).print_new(console, /*is_over=*/true);
  return 0;
}

int run_job_fetch(const Call& call, Console& console) {
  const bool checkpoints = settings_of<FetchChoice>(call).checkpoints;
  const JobPaths paths = job_of(call, console);
  const JobView view = job_now(paths, console);
  const fs::path to = call.words.size() > 1 ? fs::path(call.words[1]) : fs::path("job-" + paths.id());
  if (view.attempt == 0)
    throw Error(ErrorCode::not_found, "job " + jobs::shown_id(paths) + " has not begun", "lockstep jobs");
  int64_t files = copy_in(paths.diary(view.attempt), to / kDiaryFile) +
                  copy_program_files(paths.files(view.attempt), to, !view.run_folder.empty(), console) +
                  copy_in(paths.attempt_folder(view.attempt) / jobs::kErrorFile, to / jobs::kErrorFile);
  const auto values = jobs::JobStore(paths, view.attempt).values();
  if (!values.empty()) {
    make_folders(to);
    write_file_atomic(to / kValuesFile,
                      Json(values).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    ++files;
  }
  if (!view.run_folder.empty()) {
    std::vector<std::string> without{"lock", "requests"};
    if (!checkpoints) without.emplace_back("checkpoints");
    files += copy_in(view.run_folder, to / kRunFolder, without);
  }
  console.print(printable(counted(files, "file") + " in " + to.string()) + "\n");
  if (!jobs::is_over(view))
    console.note("job " + jobs::shown_id(paths) + " is " + state_word(view) + "; there may be more later\n");
  return 0;
}

Attached attach_to_run(const JobPaths& paths, const AttachOptions& options, Console& console) {
  launch::StopSignals signals(options.notice);
  const fs::path run_folder = jobs::read_spec(paths).run_folder;
  FollowedRuns runs(run_folder, options.plot, console);
  JobView view;
  std::string said;
  JobWatch watch(console, signals.token());
  const bool is_over = look_until_over(signals, [&] {
    view = watch.now(paths);
    const bool goes_on = !jobs::is_over(view);
    runs.poll();
    const std::string word = state_word(view);
    if (goes_on && word != said && view.state != JobState::running)
      console.note("job " + view.id + " is " + word + "\n");
    said = word;
    return goes_on;
  });
  runs.finish();
  if (!is_over) return {.signal = signals.signal()};
  console.print(closing_words(view));
  return {.over = view};
}

int run_job_attach(const Call& call, Console& console) {
  const JobPaths paths = job_of(call, console);
  const JobView view = job_now(paths, console);
  if (!view.run_folder.empty()) {
    const Attached end =
        attach_to_run(paths,
                      {.plot = settings_of<AttachChoice>(call).plot,
                       .notice = "detached; the job goes on: lockstep job attach " + jobs::shown_id(paths)},
                      console);
    if (end.over) return end.over->state == JobState::ended ? 0 : 1;
    return status_after(end.signal);
  }
  if (const int signal = follow_diary(paths, -1, console); signal != 0) {
    console.note("detached; the job goes on: lockstep job attach " + view.id + "\n");
    return status_after(signal);
  }
  const JobView now = job_now(paths, console);
  console.note(closing_words(now));
  return now.state == JobState::ended ? 0 : 1;
}

int run_job_put(const Call& call, Console&) {
  const auto store = jobs::JobStore::of_this_process();
  if (!store)
    throw Error(ErrorCode::invalid_option, "this program was not started by a job: LOCKSTEP_JOB is not set",
                "lockstep batch -- PROGRAM starts jobs");
  const std::string& name = call.words[0];
  const std::string& value = call.words[1];
  std::error_code code;
  if (fs::is_regular_file(value, code)) {
    store->put_file(name, value);
  } else {
    store->put_value(name, value_json(value));
  }
  return 0;
}

}  // namespace lockstep::cli
