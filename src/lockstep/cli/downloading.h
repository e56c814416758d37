// Downloads as the commands show them: a question on a terminal, progress, and how a download ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/download/download.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// Where files come from.
struct MirrorChoice {
  std::string mirror;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Download");
    field(
        "mirror", self.mirror,
        "address of a folder with copies of the files, https:// or http://; empty: where they are published");
  };
};

/// Writes "12.0 MB of 44.7 MB, 20 s left" to standard error while a download lasts: on a terminal one line,
/// overwritten and erased at the end, elsewhere a line every ten seconds.
class DownloadLine {
 public:
  explicit DownloadLine(Console& console);
  ~DownloadLine();
  DownloadLine(const DownloadLine&) = delete;
  DownloadLine& operator=(const DownloadLine&) = delete;

  void show(const download::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  const bool redraws_;
  bool shown_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  int64_t first_bytes_ = -1;
};

/// Runs a download with a line of progress and Ctrl-C. Returns 0, or the exit status after a signal, which it
/// explains.
int run_download(Console& console, const std::function<void(const download::Options&)>& work);

/// With --pretrained, on a terminal: asks whether to download weights that are not in the cache, and does so.
/// Without a terminal nothing happens; the training then says which command downloads them. Throws cancelled
/// after Ctrl-C.
void offer_pretrained(const train::Options& options, Console& console);

}  // namespace lockstep::cli
