// The agent of `lockstep run --hosts` on one host; hidden. It ends with its ssh connection.
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <thread>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/build_text.h"
#include "lockstep/cli/host_messages.h"
#include "lockstep/cli/lockstep_program.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/inventory.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestOrder = 16 << 20;
constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::seconds kOrphanLimit{60};
constexpr std::chrono::milliseconds kLookInterval{200};

// No byte after the line is read: these are for the ranks.
std::optional<Json> read_order() {
  std::string line;
  char byte = 0;
  while (line.size() < kLongestOrder) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    if (byte == '\n') return parse_json(line);
    line += byte;
  }
  return std::nullopt;
}

// sshd's convention: "CLIENT PORT SERVER PORT".
std::string own_address() {
  const std::vector<std::string> parts = split(environment_variable("SSH_CONNECTION"), ' ');
  return parts.size() == 4 ? parts[2] : kLoopback;
}

// Ranks of the last start may still be ending on a host whose connection was lost.
bool has_run(const fs::path& folder) {
  if (folder.empty() || !(record::holds_run(folder) || jobs::has_begun(folder))) return false;
  const auto end = std::chrono::steady_clock::now() + kOrphanLimit;
  while (true) {
    try {
      record::RunFolder::open(folder);
      break;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io || std::chrono::steady_clock::now() > end) throw;
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  return jobs::has_begun(folder);
}

void work_in(const std::string& folder) {
  std::error_code failed;
  fs::current_path(folder, failed);
  if (failed)
    throw Error(ErrorCode::not_found,
                "there is no folder " + quote(folder) +
                    " here, in which lockstep run was started: " + failed.message(),
                "start it in a folder that all hosts have");
}

RanksEnd run_as_ordered(Console& console) {
  std::optional<comm::MeetingPlace> place;
  while (const std::optional<Json> order = read_order()) {
    if (order->contains("meet")) {
      MeetOrder meet;
      read_json(order->at("meet"), meet, "the order");
      place.emplace(meet.address.empty() ? own_address() : meet.address);
      console.print(message_line(say::kMeeting, to_json(Meeting{.address = place->address(),
                                                                .port = place->port(),
                                                                .secret = place->secret(),
                                                                .has_run = has_run(meet.run_folder)})));
      continue;
    }
    StartOrder start;
    read_json(order->at("start"), start, "the order");
    work_in(start.working_folder);
    if (!start.program.tee.empty()) make_folders(start.program.tee);
    ::fcntl(STDIN_FILENO, F_SETFL, ::fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    return run_ranks(start.program,
                     {.print = [&](std::string_view text) { console.print(message_line(say::kPrint, text)); },
                      .note = [&](std::string_view text) { console.print(message_line(say::kNote, text)); },
                      .orders = STDIN_FILENO});
  }
  return {};
}

}  // namespace

int run_host_ranks(const Call&, Console& console) {
  const LauncherSignals signals;
  console.print(message_line(say::kHello, to_json(Hello{.build = build_text(),
                                                        .cores = device::inspect().cores,
                                                        .machine = host_name(),
                                                        .address = own_address()})));
  try {
    console.print(message_line(say::kEnded, to_json(run_as_ordered(console))));
    return 0;
  } catch (const Error& error) {
    console.print(message_line(say::kFailed, Json{{"text", error.message()}, {"hint", error.hint()}}));
    return 1;
  }
}

}  // namespace lockstep::cli
