#include "lockstep/train/loop/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/gone_folder.h"
#include "lockstep/record/remove_run.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnfinished = ".unfinished-";
constexpr int64_t kMostCheckpointManifestBytes = 64 << 20;

// In the order of steps: names have eight digits, and more from step 100,000,000 on.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) found.push_back(entry.path());
  std::ranges::sort(found, {}, [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  });
  return found;
}

// DONE is removed first, so that a kill in the middle leaves no folder that looks complete.
void remove_checkpoint(const fs::path& folder) {
  std::error_code code;
  fs::remove(folder / "DONE", code);
  fs::remove_all(folder, code);
}

// A second checkpoint of the same step (the run ended there, or was stopped twice) is written beside the
// first one until it is complete.
fs::path free_folder(const fs::path& wanted) {
  fs::path folder = wanted;
  for (int again = 2; fs::exists(folder); ++again) {
    char suffix[16];
    std::snprintf(suffix, sizeof(suffix), "-%04d", again);
    folder = wanted;
    folder += suffix;
  }
  return folder;
}

// Not the run's own folder: somebody may have removed it.
void make_folder_of(const fs::path& run, const fs::path& checkpoint) {
  std::error_code code;
  fs::create_directory(checkpoint.parent_path(), code);
  if (!code) fs::create_directory(checkpoint, code);
  if (!code) return;
  if (record::is_gone(run)) throw record::gone_folder_error(run);
  throw errno_error(code.value(), "create folder", checkpoint.string());
}

std::string manifest_hash(const Json& manifest) {
  return as_hex(hash_of(manifest.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

constexpr const char* kHint = "remove the folder to continue from an earlier checkpoint or to start again";

// A correct hash does not prove that this program wrote the file.
bool is_whole(const Json& manifest) {
  const auto has = [&](const char* name) { return manifest.contains(name) && manifest[name].is_object(); };
  return manifest.is_object() && has("state") && has("fingerprint") && has("tensors") &&
         std::ranges::all_of(manifest["tensors"], [](const Json& hash) { return hash.is_string(); });
}

[[noreturn]] void damaged_checkpoint(const fs::path& path, const std::string& reason = {}) {
  throw Error(ErrorCode::corrupt_data,
              "\"" + path.string() + "\" is damaged" + (reason.empty() ? "" : ": ") + reason, kHint);
}

Json parsed_manifest(const fs::path& path) {
  try {
    return parse_json(read_file(path, kMostCheckpointManifestBytes));
  } catch (const JsonError& error) {
    damaged_checkpoint(path, error.what());
  }
}

Checkpoint read_checkpoint(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  Json manifest = parsed_manifest(path);
  const std::string hash = manifest.is_object() && manifest.contains("hash") ? manifest["hash"].dump() : "";
  if (manifest.is_object()) manifest.erase("hash");
  if (hash != Json(manifest_hash(manifest)).dump() || !is_whole(manifest)) damaged_checkpoint(path);
  Checkpoint checkpoint{folder, {}, manifest["fingerprint"], manifest["tensors"]};
  read_json(manifest["state"], checkpoint.state, "\"" + path.string() + "\"");
  return checkpoint;
}

bool is_complete(const fs::path& folder) {
  return folder.filename().string().starts_with("step-") && fs::exists(folder / "DONE");
}

// The hash that the tensors in this file must have, and another file that has them. Empty if not known.
struct Expected {
  std::string hash{};
  fs::path copy{};
};

//   checkpoint  the one that the file is of, or else its run's last one
Expected expected_in(const fs::path& file, const Checkpoint& checkpoint) {
  const fs::path folder = file.parent_path();
  if (folder == checkpoint.folder) return {.hash = checkpoint.hashes.value(file.filename().string(), "")};
  const RunState& state = checkpoint.state;
  if (state.finished.empty() && !record::end_of_last_attempt(folder)) return {};
  const std::string last = checkpoint.hashes.value("model.safetensors", "");
  const record::RunPaths paths{folder};
  if (file == paths.best_weights()) return {.hash = state.best_weights_hash};
  if (file != paths.weights()) return {};
  const std::string hash = state.weights_hash.empty() && !state.finished.empty() ? last : state.weights_hash;
  return {.hash = hash, .copy = hash == last ? checkpoint.folder / "model.safetensors" : fs::path()};
}

// The run ended before it, and went on.
bool is_after_end(const Checkpoint& checkpoint) {
  const std::string& hash = checkpoint.state.weights_hash;
  return !hash.empty() && hash != checkpoint.hashes.value("model.safetensors", "");
}

}  // namespace

fs::path checkpoint_folder(const fs::path& run, int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%08lld", static_cast<long long>(step));
  return run / "checkpoints" / name;
}

std::optional<Checkpoint> last_checkpoint(const fs::path& run) {
  const auto folders = folders_in(run / "checkpoints");
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    if (is_complete(*folder)) return read_checkpoint(*folder);
  }
  return std::nullopt;
}

nn::NamedTensors read_tensors(const Checkpoint& checkpoint, const std::string& file) {
  const fs::path path = checkpoint.folder / file;
  auto tensors = nn::read_safetensors(path).tensors;
  if (checkpoint.hashes.value(file, "") != tensors_hash(tensors))
    damaged_checkpoint(path, "its tensors are not those that were saved");
  return tensors;
}

std::string tensors_hash(const nn::NamedTensors& tensors) {
  uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.contiguous();
    hash = hash_of(name, hash);
    hash = hash_of(std::span(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()), hash);
  }
  return as_hex(hash);
}

std::optional<Checkpoint> checkpoint_after_end(const fs::path& run) {
  auto checkpoint = last_checkpoint(run);
  if (checkpoint && !is_after_end(*checkpoint)) checkpoint.reset();
  return checkpoint;
}

std::string weights_doubt(const fs::path& file, const nn::NamedTensors& weights) {
  const std::string quoted = "\"" + file.string() + "\"";
  try {
    const fs::path folder = file.parent_path();
    const auto checkpoint =
        is_complete(folder) ? std::optional(read_checkpoint(folder)) : last_checkpoint(folder);
    if (!checkpoint) return "";
    const std::string hash = tensors_hash(weights);
    if (folder != checkpoint->folder && file == record::RunPaths{folder}.weights() &&
        is_after_end(*checkpoint) && hash == checkpoint->state.weights_hash)
      return quoted + " is of an earlier end of the run, which has come to step " +
             with_commas(checkpoint->state.step) + " since: \"" +
             (checkpoint->folder / "model.safetensors").string() + "\" has the weights of that step";
    const Expected expected = expected_in(file, *checkpoint);
    if (expected.hash.empty() || expected.hash == hash) return "";
    return quoted + " is not as the run saved it: its tensors have changed since" +
           (expected.copy.empty() ? ""
                                  : "; \"" + expected.copy.string() + "\" should have them as they were");
  } catch (const Error& error) {
    return quoted + " cannot be compared with what the run saved: " + error.message();
  }
}

void remove_unfinished(const fs::path& run) {
  std::error_code code;
  for (const fs::path& folder : folders_in(run / "checkpoints")) {
    if (!fs::exists(folder / "DONE", code)) fs::remove_all(folder, code);
  }
  record::remove_unfinished_files(run);
}

fs::path write_checkpoint(const fs::path& run, const Snapshot& snapshot) {
  const fs::path target = free_folder(checkpoint_folder(run, snapshot.state.step));
  const fs::path folder = target.parent_path() / (kUnfinished + target.filename().string());
  remove_checkpoint(folder);
  make_folder_of(run, folder);
  nn::write_safetensors(folder / "model.safetensors", snapshot.weights);
  nn::write_safetensors(folder / "optimizer.safetensors", snapshot.optimizer);
  Json manifest{{"state", lockstep::to_json(snapshot.state)},
                {"fingerprint", snapshot.fingerprint},
                {"tensors",
                 {{"model.safetensors", tensors_hash(snapshot.weights)},
                  {"optimizer.safetensors", tensors_hash(snapshot.optimizer)}}}};
  manifest["hash"] = manifest_hash(manifest);
  write_file_synced(folder / "manifest.json", [&](const Sink& sink) { sink(manifest.dump(1) + "\n"); });
  sync_folder(folder);
  rename_path(folder, target);
  sync_folder(target.parent_path());
  write_file_synced(target / "DONE", [](const Sink&) {});
  sync_folder(target);
  for (const fs::path& other : folders_in(target.parent_path())) {
    if (other != target) remove_checkpoint(other);
  }
  return target;
}

void write_confusion(const fs::path& run, const Snapshot& snapshot) {
  if (!snapshot.confusion.empty()) write_file_atomic(record::RunPaths{run}.confusion(), snapshot.confusion);
}

CheckpointWriter::CheckpointWriter(fs::path run, Done done)
    : run_(std::move(run)), done_(std::move(done)), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() { queue_.close(); }

bool CheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return pending_ > 0;
}

void CheckpointWriter::rethrow() {
  const std::lock_guard lock(mutex_);
  if (!error_) return;
  // The writing may have failed while the folder was being removed.
  if (record::is_gone(run_)) throw record::gone_folder_error(run_);
  std::rethrow_exception(error_);
}

void CheckpointWriter::submit(Snapshot snapshot) {
  rethrow();
  {
    const std::lock_guard lock(mutex_);
    ++pending_;
  }
  queue_.push(std::move(snapshot));
}

void CheckpointWriter::finish() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return pending_ == 0; });
  }
  rethrow();
}

void CheckpointWriter::work() {
  while (auto snapshot = queue_.pop()) {
    try {
      const auto start = std::chrono::steady_clock::now();
      if (snapshot->best) nn::write_safetensors_atomic(run_ / "best.safetensors", snapshot->weights);
      write_confusion(run_, *snapshot);
      const fs::path folder =
          snapshot->checkpoint ? write_checkpoint(run_, *snapshot) : run_ / "best.safetensors";
      done_(*snapshot, folder, seconds_since(start));
    } catch (Error& error) {
      if (error.code() == ErrorCode::not_found) record::wait_until_gone(run_);
      error.add_context("while saving step " + std::to_string(snapshot->state.step) + " in \"" +
                        run_.string() + "\"");
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    --pending_;
    idle_.notify_all();
  }
}

}  // namespace lockstep::train
