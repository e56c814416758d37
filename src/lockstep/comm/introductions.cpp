#include "lockstep/comm/internal/introductions.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/internal/socket.h"

namespace lockstep::comm {
namespace {

constexpr const char* kRoster = "roster";
constexpr const char* kMet = "met";  // the session that all ranks have seen
constexpr size_t kRandomBytes = 16;

// Equal for processes that can open each other's files in /proc.
Json machine() {
  std::array<char, 100> space{};
  [[maybe_unused]] const ssize_t read = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return {{"boot", first_line_of("/proc/sys/kernel/random/boot_id")},
          {"processes", space.data()},
          {"user", ::getuid()}};
}

std::string own_key(int64_t rank) { return "rank-" + std::to_string(rank); }
std::string seen_key(int64_t rank) { return "rank-" + std::to_string(rank) + "-has-seen"; }
std::string as_met(const std::string& session) { return session + " met"; }

std::string text_of_ranks(const std::vector<int64_t>& ranks, int64_t size) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) names.push_back(std::to_string(ranks[i]));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ") +
         (ranks.size() > kMost ? " and " + std::to_string(ranks.size() - kMost) + " more" : "") + " of " +
         std::to_string(size);
}

// If something introduces itself as no rank of this version does: what it wrote.
std::vector<Json> introductions_of(const std::vector<std::string>& texts) {
  std::vector<Json> all;
  for (const std::string& text : texts) {
    Json said = introduction_in(text);
    all.push_back(said.is_null() ? Json{{"said", text}} : std::move(said));
  }
  return all;
}

/// Rank 0's side of a meeting.
class Host {
 public:
  Host(const OpenStore& open, const launch::Launch& launch, const std::string& own)
      : open_(open), launch_(launch), texts_(static_cast<size_t>(launch.size)), saw_(texts_.size()) {
    texts_[0] = own;
    saw_[0] = true;
  }

  Met meet(Patience& patience) {
    wait_for(patience, [&] {
      listen();
      return !roster_.ranks.empty() && note_who_saw(roster_.session);
    });
    wait_for(patience, [&] {
      open_.store->keep(kRoster, text_of(roster_));
      open_.store->keep(kMet, roster_.session);
      return note_who_saw(as_met(roster_.session));
    });
    return {roster_.session, introductions_of(roster_.ranks)};
  }

 private:
  void wait_for(Patience& patience, const std::function<bool()>& all_are_there) {
    while (!all_are_there()) {
      std::vector<int64_t> missing;
      for (size_t rank = 1; rank < saw_.size(); ++rank) {
        if (!saw_[rank]) missing.push_back(static_cast<int64_t>(rank));
      }
      if (patience.is_over()) {
        throw Error(ErrorCode::communication,
                    text_of_ranks(missing, launch_.size) + " did not come to rank 0 within " +
                        patience.limit_text() + ", at " + open_.place(launch_),
                    open_.hint());
      }
      patience.sleep([&] {
        return "waiting for " + text_of_ranks(missing, launch_.size) + " at " + open_.place(launch_);
      });
    }
    patience.renew();
  }

  // Reads what ranks say now: an earlier value may belong to an earlier group.
  void listen() {
    open_.keep();
    open_.store->keep(own_key(0), texts_[0]);
    bool is_new = roster_.ranks.empty();
    for (int64_t rank = 1; rank < launch_.size; ++rank) {
      const auto said = open_.store->find(own_key(rank));
      std::string& text = texts_[static_cast<size_t>(rank)];
      if (!said || *said == text) continue;
      text = *said;
      is_new = true;
    }
    if (is_new &&
        std::none_of(texts_.begin(), texts_.end(), [](const std::string& text) { return text.empty(); }))
      roster_ = {random_hex(kRandomBytes), texts_};
    for (size_t rank = 1; rank < saw_.size(); ++rank) saw_[rank] = !texts_[rank].empty();
    if (!roster_.ranks.empty()) open_.store->keep(kRoster, text_of(roster_));
  }

  // Something that introduces itself as no rank of this version does looks at nothing.
  bool note_who_saw(const std::string& session) {
    for (size_t rank = 1; rank < saw_.size(); ++rank) {
      saw_[rank] = introduction_in(texts_[rank]).is_null() ||
                   open_.store->find(seen_key(static_cast<int64_t>(rank))) == session;
    }
    return std::all_of(saw_.begin(), saw_.end(), [](bool saw) { return saw; });
  }

  const OpenStore& open_;
  const launch::Launch& launch_;
  std::vector<std::string> texts_;
  std::vector<bool> saw_;  // the roster, as far as it is known
  Roster roster_;
};

// The other ranks' side.
Met meet_rank_0(const OpenStore& open, const launch::Launch& launch, const std::string& own,
                Patience& patience) {
  while (true) {
    open.store->keep(own_key(launch.rank), own);
    const Roster roster = roster_in(open.store->find(kRoster).value_or(""));
    if (static_cast<int64_t>(roster.ranks.size()) == launch.size &&
        roster.ranks[static_cast<size_t>(launch.rank)] == own) {
      const bool met = open.store->find(kMet) == roster.session;
      open.store->keep(seen_key(launch.rank), met ? as_met(roster.session) : roster.session);
      if (met) return {roster.session, introductions_of(roster.ranks)};
    }
    const auto missing = [&] {
      std::vector<int64_t> ranks;
      for (int64_t rank = 0; rank < launch.size; ++rank) {
        if (!open.store->find(own_key(rank))) ranks.push_back(rank);
      }
      if (ranks.empty() || ranks.front() == 0) return "rank 0 at " + open.place(launch);
      return text_of_ranks(ranks, launch.size) + ", as rank 0 does at " + open.place(launch);
    };
    if (patience.is_over())
      throw Error(ErrorCode::communication,
                  who(launch) + " gave up after " + patience.limit_text() + " of waiting for " + missing(),
                  open.hint());
    patience.sleep([&] { return name_of_rank(launch) + " waits for " + missing(); });
  }
}

}  // namespace

Json introduction(const launch::Launch& launch, CommunicatorKind kind) {
  Json own{{"machine", machine()},
           {"process", ::getpid()},
           {"host", host_name()},
           {"communicator", enum_names(kind)[static_cast<size_t>(kind)]},
           {"random", random_hex(kRandomBytes)}};
  try {
    own["address"] = launch.interface.empty() ? own_address_towards(launch.address, launch.port)
                                              : address_of_interface(launch.interface);
  } catch (const SocketFailure& failure) {
    own["no_address"] = failure.why;
  }
  return own;
}

Json introduction_in(const std::string& text) {
  try {
    Json said = parse_json(text);
    const auto is_text = [&](const char* name) { return said.contains(name) && said[name].is_string(); };
    if (said.is_object() && said.contains("machine") && said.contains("process") &&
        said["process"].is_number_integer() && is_text("host") && is_text("communicator") &&
        (is_text("address") || is_text("no_address")))
      return said;
  } catch (const JsonError&) {
  }
  return nullptr;
}

std::string text_of(const Roster& roster) {
  return Json{{"session", roster.session}, {"ranks", roster.ranks}}.dump(-1, ' ', false,
                                                                         Json::error_handler_t::replace);
}

Roster roster_in(const std::string& text) {
  try {
    const Json said = parse_json(text);
    Roster roster{.session = said.at("session").get<std::string>(),
                  .ranks = said.at("ranks").get<std::vector<std::string>>()};
    return roster;
  } catch (const JsonError&) {
  } catch (const Json::exception&) {
  }
  return {};
}

Met meet(const OpenStore& open, const launch::Launch& launch, const Json& own, Patience& patience) {
  Met met = launch.rank == 0 ? Host(open, launch, own.dump()).meet(patience)
                             : meet_rank_0(open, launch, own.dump(), patience);
  for (size_t rank = 0; rank < met.ranks.size(); ++rank) {
    if (met.ranks[rank].contains("process")) continue;
    throw Error(ErrorCode::communication,
                "rank " + std::to_string(rank) + " introduces itself with \"" +
                    printable(met.ranks[rank]["said"].get<std::string>().substr(0, 40)) +
                    "\", which no rank of this version of Lockstep does",
                "start all ranks with the same program, and let no other one use this MASTER_PORT");
  }
  return met;
}

std::string name_of(size_t rank, const Json& said) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(said["process"].get<int64_t>()) +
         ") on " + said["host"].get<std::string>();
}

}  // namespace lockstep::comm
