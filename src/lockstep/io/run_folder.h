// The folder that a run leaves behind: where each thing lies in it, and who may write there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::io {

/// Where things lie in a run's folder. A value; touches no file.
struct RunPaths {
  std::filesystem::path folder;
  std::filesystem::path events() const { return folder / "events"; }
  std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
  std::filesystem::path weights() const { return folder / "model.safetensors"; }
  std::filesystem::path best_weights() const { return folder / "best.safetensors"; }
  std::filesystem::path options() const { return folder / "options.json"; }
  std::filesystem::path listing() const { return folder / "listing.jsonl"; }
  std::filesystem::path curves() const { return folder / "curves.svg"; }
  std::filesystem::path report() const { return folder / "report.html"; }
  std::filesystem::path tensorboard() const { return folder / "tensorboard"; }
  std::filesystem::path lock() const { return folder / "lock"; }
};

/// The one writer of a run's folder. Holds RUN/lock until it is destroyed or its process ends, however that
/// ends. A folder that it made and nothing was written to goes with it. Movable.
class RunFolder {
 public:
  /// A new run: makes the folder where it is not there. Throws invalid_option when anything is in it already.
  static RunFolder create(const std::filesystem::path& folder);

  /// A new run in a free PARENT/NAME-001, -002, ... Programs that start together get different ones.
  static RunFolder create_numbered(std::string_view name, const std::filesystem::path& parent = "runs");

  /// A run that is there, to go on with it. Throws not_found when the folder is not there, invalid_option
  /// when it holds no run.
  static RunFolder open(const std::filesystem::path& folder);

  // All three throw io, naming the process and its host, when another program writes to the run.

  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) noexcept;
  ~RunFolder();

  const RunPaths& paths() const { return paths_; }

  /// False on file systems that have no locks (some Lustre mounts): nothing then keeps a second program out.
  bool locked() const;

 private:
  class Lock;
  RunFolder(RunPaths paths, std::unique_ptr<Lock> lock);
  static RunFolder begin(const RunPaths& paths, bool made_here);

  RunPaths paths_;
  std::unique_ptr<Lock> lock_;
};

/// The first free name PARENT/NAME-001, -002, ... after the highest that is there. Makes nothing. What does
/// not belong in a file's name becomes "-".
std::filesystem::path default_name(std::string_view name, const std::filesystem::path& parent = "runs");

}  // namespace lockstep::io
