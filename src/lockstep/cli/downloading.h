// Downloads as the commands show them: a question on a terminal, progress, and how a download ended.
#pragma once

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

/// Runs a download with a line of progress and Ctrl-C. Returns 0, or the exit status after a signal, which it
/// explains.
int run_download(Console& console, const std::function<void(const download::Options&)>& work);

/// With --pretrained, on a terminal: asks whether to download weights that are not in the cache, and does so.
/// Without a terminal nothing happens; the training then says which command downloads them. Throws cancelled
/// after Ctrl-C.
void offer_pretrained(const train::Options& options, Console& console);

}  // namespace lockstep::cli
