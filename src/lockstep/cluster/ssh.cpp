#include "lockstep/cluster/ssh.h"

#include <filesystem>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cluster/internal/doubled_percent.h"

namespace lockstep::cluster {
namespace {

constexpr size_t kMostSocketPath = 100;  // of 108 that the kernel takes
constexpr size_t kSocketName = 60;       // 40 digits and what ssh adds while it connects

constexpr const char* kNotQuotable = "\"\\$";  // by an option of ssh

// Where connections that are shared wait; empty if its path cannot be that of a socket of ssh.
std::string control_folder() {
  const std::filesystem::path caches = lockstep_cache_folder();
  if (caches.empty() || caches.native().size() + kSocketName > kMostSocketPath ||
      caches.native().find_first_of(kNotQuotable) != std::string::npos)
    return "";
  const std::filesystem::path folder = caches / "ssh";
  make_folders(folder);
  ::chmod(folder.c_str(), 0700);
  return folder.string();
}

}  // namespace

std::vector<std::string> ssh_words(const SshCommand& command) {
  std::vector<std::string> words{"ssh",
                                 "-o",
                                 "BatchMode=yes",
                                 "-o",
                                 "StrictHostKeyChecking=yes",
                                 "-o",
                                 "ConnectTimeout=20",
                                 "-o",
                                 "ServerAliveInterval=15"};
  // Beside known_hosts; a version of ssh that does not know this goes by known_hosts alone.
  if (!command.host_key.empty())
    words.insert(words.end(), {"-o", "IgnoreUnknown=KnownHostsCommand", "-o",
                               "KnownHostsCommand=/bin/echo %H " + command.host_key});
  if (!command.shares_connection) words.insert(words.end(), {"-o", "ControlPath=none"});
  if (const std::string folder = control_folder(); command.shares_connection && !folder.empty())
    words.insert(words.end(),
                 {"-o", "ControlMaster=auto", "-o", "ControlPath=\"" + doubled_percent(folder) + "/%C\"",
                  "-o", "ControlPersist=60"});
  // Without a word on the connection's end.
  if (command.on_terminal) words.insert(words.end(), {"-tt", "-o", "LogLevel=ERROR"});
  std::string line;
  for (const std::string& word : command.words) line += (line.empty() ? "" : " ") + shell_word(word);
  words.insert(words.end(), {command.login, "--", line});
  return words;
}

void throw_ssh_error(const std::string& login, const std::string& errors) {
  std::vector<std::string> lines = split(errors, '\n');
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();  // ssh ends its own lines so
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  const std::string why = lines.empty() ? "ssh said nothing" : printable(lines.back());
  std::string hint = "try it by hand: ssh " + login;
  if (errors.find("Host key verification failed") != std::string::npos)
    hint = "its key is not known, or has changed: connect once by hand and compare it: ssh " + login;
  if (errors.find("Permission denied") != std::string::npos)
    hint = "a key without a question is needed: ssh-add, or ssh-copy-id " + login;
  throw Error(ErrorCode::cluster, "cannot reach " + login + ": " + why, hint);
}

}  // namespace lockstep::cluster
