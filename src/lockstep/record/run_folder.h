// The layout of a run folder, and the lock that gives it one writer.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::record {

/// The paths in a run folder. A value; it does not access files.
struct RunPaths {
  static constexpr const char* kClock =
      ".clock-";  ///< begins the name of a file that shows the time (state_of)
  std::filesystem::path folder;
  std::filesystem::path events() const { return folder / "events"; }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  std::filesystem::path weights() const { return folder / "model.safetensors"; }
  std::filesystem::path best_weights() const { return folder / "best.safetensors"; }
  std::filesystem::path options() const { return folder / "options.json"; }
  std::filesystem::path listing() const { return folder / "listing.jsonl"; }
  std::filesystem::path curves() const { return folder / "curves.svg"; }
  std::filesystem::path confusion() const { return folder / "confusion.csv"; }
  std::filesystem::path report() const { return folder / "report.html"; }
  std::filesystem::path tensorboard() const { return folder / "tensorboard"; }
  std::filesystem::path lock() const { return folder / "lock"; }
  std::filesystem::path status() const { return folder / "status.json"; }
  std::filesystem::path result() const { return folder / "result.json"; }
  std::filesystem::path requests() const { return folder / "requests"; }
};

/// The nearest folder above a file that has the options of a run: of its weights, also in a checkpoint.
/// Nothing if there is none.
std::optional<std::filesystem::path> run_folder_around(const std::filesystem::path& file);

/// The one writer of a run folder. Holds RUN/lock until it is destroyed or its process ends, in any way. If
/// it created the folder and nothing was written to it, it removes the folder. Movable.
class RunFolder {
 public:
  /// A new run: creates the folder if it does not exist. Throws invalid_option if the folder is not empty.
  static RunFolder create(const std::filesystem::path& folder);

  /// A new run in a free PARENT/NAME-001, -002, ... Programs that start at the same time get different
  /// folders.
  static RunFolder create_numbered(std::string_view name, const std::filesystem::path& parent = "runs");

  /// An existing run, to continue it. Throws not_found if the folder does not exist, invalid_option if it
  /// does not contain a run.
  static RunFolder open(const std::filesystem::path& folder);

  // All three throw io, naming the process and its host, if another program writes to the run.

  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) noexcept;
  ~RunFolder();

  const RunPaths& paths() const { return paths_; }

  /// False on file systems without locks (some Lustre mounts): a second program is then not prevented from
  /// writing.
  bool locked() const;

 private:
  class Lock;
  RunFolder(RunPaths paths, std::unique_ptr<Lock> lock);
  static RunFolder begin(const RunPaths& paths, bool made_here);

  RunPaths paths_;
  std::unique_ptr<Lock> lock_;
};

/// The next name PARENT/NAME-001, -002, ... after the highest existing one. Creates nothing. Characters that
/// are not allowed in a file name become "-".
std::filesystem::path default_name(std::string_view name, const std::filesystem::path& parent = "runs");

}  // namespace lockstep::record
