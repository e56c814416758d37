#include "lockstep/cli/hosts_file.h"

#include <algorithm>
#include <sstream>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostSlots = 1024;

[[noreturn]] void refuse_line(int64_t number, const std::string& why) {
  throw Error(ErrorCode::invalid_option, "line " + std::to_string(number) + " of the hosts: " + why,
              "write a host on each line, like: node-a slots=4");
}

// A word that begins with '-' would be an option of ssh.
void check_name(int64_t number, const std::string& what, const std::string& text) {
  const bool is_good =
      !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._-@:%[]").find(c) != std::string_view::npos;
      });
  if (!is_good) refuse_line(number, quote(printable(text)) + " cannot be " + what);
}

void read_setting(int64_t number, const std::string& word, Host& host) {
  const size_t sign = word.find('=');
  const std::string name = word.substr(0, sign),
                    value = sign == std::string::npos ? "" : word.substr(sign + 1);
  if (name == "slots") {
    const auto slots = parse_number<int64_t>(value);
    if (!slots || *slots < 1 || *slots > kMostSlots)
      refuse_line(number,
                  quote(printable(word)) + " is no number of ranks from 1 to " + with_commas(kMostSlots));
    host.slots = *slots;
  } else if (name == "address") {
    check_name(number, "an address", value);
    host.address = value;
  } else {
    refuse_line(number, quote(printable(word)) + " is neither slots=N nor address=A");
  }
}

int64_t slots_of(const std::vector<Host>& hosts) {
  int64_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

}  // namespace

std::vector<Host> read_hosts(std::string_view text) {
  std::vector<Host> hosts;
  int64_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    check_name(number, "the name of a host", host.name);
    for (std::string word; words >> word;) read_setting(number, word, host);
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& one) { return one.name == host.name; });
    if (known == hosts.end()) {
      hosts.push_back(std::move(host));
    } else {
      known->slots = std::max<int64_t>(1, known->slots) + std::max<int64_t>(1, host.slots);
    }
  }
  if (hosts.empty()) refuse_line(std::max<int64_t>(1, number), "there is no host");
  return hosts;
}

std::vector<HostShare> share_ranks(const std::vector<Host>& hosts, int64_t ranks) {
  std::vector<Host> filled = hosts;
  const int64_t open =
      std::count_if(filled.begin(), filled.end(), [](const Host& host) { return host.slots == 0; });
  const int64_t rest = std::max(open, ranks - slots_of(filled));
  int64_t opened = 0;
  for (Host& host : filled) {
    if (host.slots > 0) continue;
    host.slots = rest / open + (opened < rest % open ? 1 : 0);
    ++opened;
  }
  const int64_t wanted = ranks > 0 ? ranks : slots_of(filled);
  if (wanted > slots_of(filled))
    throw Error(ErrorCode::invalid_option,
                "the hosts have " + counted(slots_of(filled), "slot") + ", and there are to be " +
                    counted(wanted, "rank"),
                "start fewer ranks (-n), or give the hosts more slots");
  std::vector<HostShare> shares;
  int64_t first = 0;
  for (const Host& host : filled) {
    const int64_t here = std::min(host.slots, wanted - first);
    if (here > 0) shares.push_back({.host = host, .first = first, .ranks = here});
    first += here;
  }
  return shares;
}

}  // namespace lockstep::cli
