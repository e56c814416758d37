#include "lockstep/cli/downloading.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/status_line.h"
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

/// "12.0 MB of 44.7 MB, 20 s left"
std::string received_text(const download::Progress& progress, int64_t received, const StatusLine& line) {
  if (progress.all_bytes == 0) return as_bytes(progress.bytes);
  return as_bytes(progress.bytes) + " of " + as_bytes(progress.all_bytes) +
         line.time_left(received, progress.all_bytes - progress.bytes);
}

}  // namespace

int run_download(Console& console, const std::function<void(const download::Options&)>& work) {
  launch::StopSignals signals("stopping; press Ctrl-C again to kill");
  try {
    StatusLine line(console);
    int64_t first_bytes = -1;  // of an earlier download that this one continues
    work({.stop = signals.token(), .progress = [&](const download::Progress& progress) {
            if (first_bytes < 0) first_bytes = progress.bytes;
            line.show([&] { return received_text(progress, progress.bytes - first_bytes, line); });
          }});
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
