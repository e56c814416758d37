#include <chrono>
#include <filesystem>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cli/status_line.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/io/address.h"
#include "lockstep/io/copy.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::cli {
namespace {

struct CopyChoice {
  bool verify = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Copying");
    field("verify", self.verify, "read each copied file back and compare checksums");
  };
};

std::string copied_text(const io::CopyProgress& progress, const StatusLine& line) {
  return with_commas(progress.files) + " of " + counted(progress.all_files, "file") + ", " +
         as_bytes(progress.bytes) + " of " + as_bytes(progress.all_bytes) +
         line.time_left(progress.bytes, progress.all_bytes - progress.bytes);
}

std::string summary(const io::CopyProgress& progress, const std::string& name, double seconds) {
  std::string text = counted(progress.all_files, "file") + ", " + as_bytes(progress.all_bytes) + ", in \"" +
                     name + "\" after " + as_duration(seconds);
  if (progress.there_already > 0) text += "; " + with_commas(progress.there_already) + " already existed";
  if (progress.left_out > 0)
    text += "; " + with_commas(progress.left_out) + " links and devices were skipped";
  return text + "\n";
}

// Files in a run folder would be mixed with the run's own files. A copy of a run may continue where it was
// stopped.
void refuse_run_folder(const std::string& from, const std::string& to) {
  const record::RunPaths target{to}, source{from};
  if (io::is_address(to) || !std::filesystem::exists(target.options()) ||
      !std::filesystem::is_directory(target.events()))
    return;
  const bool same_run = !io::is_address(from) && std::filesystem::is_regular_file(source.options()) &&
                        read_file(source.options()) == read_file(target.options());
  if (same_run) return;
  throw Error(ErrorCode::invalid_option,
              "\"" + to + "\" is the folder of a run; copied files would be mixed with the run's own files",
              "name another folder, or a new folder inside it");
}

// A repeated copy would copy the copy.
void refuse_folder_inside(const std::string& from, const std::string& to) {
  std::error_code code;
  if (io::is_address(from) || io::is_address(to) || !std::filesystem::is_directory(from, code)) return;
  const std::filesystem::path source = std::filesystem::canonical(from, code);
  if (code) return;  // the stores say why
  const std::filesystem::path target =
      std::filesystem::weakly_canonical(std::filesystem::absolute(to, code), code);
  if (code) return;
  const std::filesystem::path inside = target.lexically_relative(source);
  if (inside == "." || inside.empty() || *inside.begin() == "..") return;
  throw Error(ErrorCode::invalid_option,
              quote(to) + " is inside of " + quote(from) + ", so it would be a part of what is copied",
              "name a DESTINATION outside of it");
}

}  // namespace

std::vector<FieldInfo> copy_fields() { return fields_of<CopyChoice>(); }

int run_copy(const Call& call, Console& console) {
  const auto start = std::chrono::steady_clock::now();
  launch::StopSignals signals("stopping; press Ctrl-C again to kill");
  refuse_run_folder(call.words[0], call.words[1]);
  refuse_folder_inside(call.words[0], call.words[1]);
  const auto from = io::open_store(call.words[0]);
  const auto to = io::open_sink(call.words[1]);
  try {
    io::CopyProgress done;
    {
      StatusLine line(console);
      done = io::copy_files(*from, *to,
                            {.verify = settings_of<CopyChoice>(call).verify,
                             .without = kDecodedFolder,
                             .stop = signals.token(),
                             .progress = [&](const io::CopyProgress& progress) {
                               line.show([&] { return copied_text(progress, line); });
                             }});
    }
    console.print(summary(done, to->name(), seconds_since(start)));
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled || signals.signal() == 0) throw;
    const std::string how_far = error.context().empty() ? "" : ": " + error.context().back();
    console.note("stopped" + how_far + "; repeat the command to continue\n");
    return launch::kSignalStatus + signals.signal();
  }
}

}  // namespace lockstep::cli
