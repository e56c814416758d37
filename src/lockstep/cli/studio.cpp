#include "lockstep/studio/studio.h"

#include <condition_variable>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/lockstep_program.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

constexpr uint16_t kUsualPort = 8761;

std::vector<std::filesystem::path> roots_of(const Call& call) {
  if (!call.words.empty()) return {call.words.begin(), call.words.end()};
  std::vector<std::filesystem::path> roots;
  for (const char* usual : {"runs", "sweeps"}) {
    if (std::filesystem::is_directory(usual)) roots.emplace_back(usual);
  }
  if (roots.empty()) roots.emplace_back(".");
  return roots;
}

std::unique_ptr<studio::Studio> open_studio(const Call& call, const StudioSettings& settings) {
  studio::Setup setup{.roots = roots_of(call),
                      .address = settings.listen,
                      .port = static_cast<uint16_t>(settings.port == 0 ? kUsualPort : settings.port),
                      .program = lockstep_program(),
                      .version = std::string(version()),
                      .commands = {}};
  for (const Verb& verb : builtin_verbs()) {
    if (!verb.hidden) setup.commands.push_back({.name = verb.name, .fields = verb.fields()});
  }
  try {
    return std::make_unique<studio::Studio>(setup);
  } catch (const Error& error) {
    if (settings.port != 0 || error.code() != ErrorCode::io) throw;
  }
  setup.port = 0;
  return std::make_unique<studio::Studio>(setup);
}

// A browser is given a file that leads to the address with a code that works once: its arguments are visible
// to other users.
class Browser {
 public:
  explicit Browser(const std::string& address) {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-open-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    const std::filesystem::path page = folder_ / "studio.html";
    OpenFile file(page, O_WRONLY | O_CREAT | O_EXCL);
    ::fchmod(file.get(), 0600);
    file.write(
        "<!doctype html><meta charset=\"utf-8\"><title>Lockstep studio</title>"
        "<meta http-equiv=\"refresh\" content=\"0;url=" +
        address + "\">\n");
    file.close();
    process_ = launch::start_process({.program = "xdg-open",
                                      .words = {"xdg-open", page.string()},
                                      .output = launch::kNull,
                                      .errors = launch::kNull,
                                      .lifetime = launch::Lifetime::detached});
  }
  ~Browser() {
    std::error_code code;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, code);
    if (process_ > 0) launch::try_wait_for_end(process_);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

 private:
  std::filesystem::path folder_;
  pid_t process_ = -1;
};

bool has_screen() {
  return !environment_variable("DISPLAY").empty() || !environment_variable("WAYLAND_DISPLAY").empty();
}

// What the user types on the machine at which they sit. SSH_CONNECTION: client, its port, server, its port.
std::string tunnel_text(uint16_t port) {
  const std::vector<std::string> ends = split(environment_variable("SSH_CONNECTION"), ' ');
  if (ends.size() < 4) return "";
  const passwd* const user = ::getpwuid(::geteuid());
  const std::string number = std::to_string(port);
  return "  from the machine you sit at: ssh -N -L " + number + ":127.0.0.1:" + number + " " +
         (ends[3] == "22" ? "" : "-p " + ends[3] + " ") +
         (user == nullptr ? "" : std::string(user->pw_name) + "@") + ends[2] +
         "\n  then open the address there\n";
}

}  // namespace

int run_studio(const Call& call, Console& console) {
  const auto settings = settings_of<StudioSettings>(call);
  launch::StopSignals signals("");  // before the threads of the server
  const auto studio = open_studio(call, settings);
  console.print("lockstep studio: " + studio->address_with_token() + "\n" + tunnel_text(studio->port()) +
                "  Ctrl-C ends it; runs go on\n");
  if (settings.listen != "127.0.0.1" && settings.listen != "::1")
    console.note("warning: nothing that is sent is encrypted; use --listen 127.0.0.1 and ssh -L instead\n");
  std::optional<Browser> browser;
  if (!settings.no_browser && has_screen() && environment_variable("SSH_CONNECTION").empty())
    browser.emplace(studio->address_with_code());
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait(lock, signals.token(), [] { return false; });
  if (console.is_terminal()) console.print("\n");
  return signals.signal() == SIGINT ? 0 : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
