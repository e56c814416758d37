// The command that a program elsewhere relays to this machine.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cli/build_text.h"
#include "lockstep/cli/relay.h"
#include "lockstep/cli/relay_message.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// What travelled with a message, while the command here runs, which copies what it keeps.
class RelayedFiles {
 public:
  RelayedFiles(const RelayMessage& message, std::string_view bytes) {
    if (message.files.empty()) return;
    make_folders(folder_);
    ::chmod(folder_.c_str(), 0700);
    // Each in a folder of its own: --commands and --ship may name files of one name.
    for (size_t i = 0; i < std::min(message.files.size(), message.sizes.size()); ++i) {
      const fs::path file = folder_ / std::to_string(i) / fs::path(message.files[i]).filename();
      make_folders(file.parent_path());
      const auto size = static_cast<size_t>(message.sizes[i]);
      if (size > bytes.size())
        throw Error(ErrorCode::corrupt_data, "what was relayed ends in the middle of a file", "try again");
      write_file_atomic(file, bytes.substr(0, size));
      ::chmod(file.c_str(), 0700);
      bytes.remove_prefix(size);
    }
  }
  RelayedFiles(const RelayedFiles&) = delete;
  RelayedFiles& operator=(const RelayedFiles&) = delete;
  ~RelayedFiles() {
    std::error_code none;
    fs::remove_all(folder_, none);
  }

  const fs::path& folder() const { return folder_; }

 private:
  const fs::path folder_ = lockstep_cache_folder() / "relayed" / random_hex(8);
};

}  // namespace

int run_relay(const Call&, Console& console) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  const size_t end = text.find('\n');
  RelayMessage message;
  read_json(parse_json(text.substr(0, end)), message, "what was relayed");
  if (message.build != build_text())
    console.note("lockstep: warning: the program here is another build than the one that asks\n");
  const cluster::Profiles profiles = cluster::Profiles::of_user();
  profiles.save(message.name, message.profile);
  for (const std::string& entry : message.secrets) {
    const size_t sign = entry.find('=');
    ::setenv(entry.substr(0, sign).c_str(), entry.substr(sign + 1).c_str(), 1);
  }
  const RelayedFiles files(message, std::string_view(text).substr(std::min(end + 1, text.size())));
  std::vector<std::string> words{"lockstep"};
  for (std::string word : message.words) {
    for (size_t at = word.find(kRelayedPlace); at != std::string::npos; at = word.find(kRelayedPlace))
      word.replace(at, std::string_view(kRelayedPlace).size(), files.folder().string() + "/");
    words.push_back(word);
  }
  const pid_t process = launch::start_process({.program = "/proc/self/exe", .words = words});
  return launch::exit_status(launch::wait_for_end(process).status.value_or(0));
}

}  // namespace lockstep::cli
