#include "lockstep/cli/downloading.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/nn/trained_weights.h"
#include "lockstep/train/options/pretrained.h"

namespace lockstep::cli {
namespace {

bool is_agreed(Console& console, const std::string& question) {
  console.note(question + " [Y/n] ");
  std::string answer;
  int c = std::getchar();
  if (c == EOF) return false;
  for (; c != EOF && c != '\n'; c = std::getchar()) answer += static_cast<char>(c);
  return answer.empty() || lower(answer) == "y" || lower(answer) == "yes";
}

}  // namespace

DownloadLine::DownloadLine(Console& console) : console_(console), redraws_(console.note_can_redraw()) {}

DownloadLine::~DownloadLine() {
  if (redraws_ && shown_) console_.note("\r\033[K");
}

void DownloadLine::show(const download::Progress& progress) {
  if (first_bytes_ < 0) first_bytes_ = progress.bytes;
  const double pause = !redraws_ ? 10 : shown_ ? 0.2 : 1;
  if (seconds_since(last_) < pause) return;
  last_ = Clock::now();
  shown_ = true;
  std::string text = as_bytes(progress.bytes);
  if (progress.all_bytes > 0) {
    text += " of " + as_bytes(progress.all_bytes);
    const auto received = static_cast<double>(progress.bytes - first_bytes_);
    if (received > 0)
      text += ", " +
              as_duration(seconds_since(start_) * static_cast<double>(progress.all_bytes - progress.bytes) /
                          received) +
              " left";
  }
  console_.note(redraws_ ? "\r" + text + "\033[K" : text + "\n");
}

int run_download(Console& console, const std::function<void(const download::Options&)>& work) {
  launch::StopSignals signals("stopping; press Ctrl-C again to kill");
  try {
    DownloadLine line(console);
    work({.stop = signals.token(),
          .progress = [&](const download::Progress& progress) { line.show(progress); }});
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled || signals.signal() == 0) throw;
    console.note(error.message() + "; repeat the command to continue\n");
    return launch::kSignalStatus + signals.signal();
  }
}

void offer_pretrained(const train::Options& options, Console& console) {
  const nn::TrainedWeights* weights = train::pretrained_weights(options);
  if (weights == nullptr || std::filesystem::exists(weights->path())) return;
  if (::isatty(STDIN_FILENO) != 1 || !console.note_is_terminal()) return;
  const std::string what = std::string(weights->file) + " (" + fixed(weights->megabytes, 1) + " MB)";
  if (!is_agreed(console, "download " + what + " from " + weights->address() + "?")) return;
  const int status = run_download(
      console, [&](const download::Options& how) { nn::get_trained_weights(*weights, "", how); });
  if (status != 0) throw Error(ErrorCode::cancelled, "the weights were not downloaded");
}

}  // namespace lockstep::cli
