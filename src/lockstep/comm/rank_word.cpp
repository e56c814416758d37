#include "lockstep/comm/rank_word.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

template <class Work>
auto meeting_at(const Launch& launch, const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw Error(ErrorCode::communication,
                "rank " + std::to_string(launch.rank) + " on " + host_name() + " cannot meet the others at " + launch.address + ":" + std::to_string(launch.port) + ": " +
                    device::error_of(std::current_exception()).message(),
                "are all ranks started, with the same MASTER_ADDR and MASTER_PORT?");
  }
}

template <class Work>
auto at_the_store(const Launch& launched, const Work& work) {
  const Launch launch = at_meeting_place(launched);
  return meeting_at(launch, [&] { return work(c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::PrefixStore>("lockstep/" + std::to_string(launch.attempt), open_store(launch)))); });
}

std::string answer_to(const std::string& name) { return name + "/answer"; }

}  // namespace

struct RankWord::Place {
  c10::intrusive_ptr<c10d::Store> store;
  std::string name;
  Launch launch;
};

RankWord::RankWord(const Launch& launch, const std::string& name, const std::string& text)
    : place_(at_the_store(launch, [&](auto store) {
        store->set(name, text);
        return std::make_unique<Place>(Place{std::move(store), name, launch});
      })) {}

RankWord::~RankWord() {
  try {
    for (const std::string& key : {place_->name, answer_to(place_->name)}) place_->store->deleteKey(key);  // the launcher's store may outlive this program and serve the next one
  } catch (...) {
    // The store is gone, and the text with it.
  }
}

std::string read_rank_word(const Launch& launch, const std::string& name) {
  return at_the_store(launch, [&](auto store) { return store->get_to_str(name); });
}

std::optional<std::string> RankWord::answer() const {
  return meeting_at(place_->launch, [&]() -> std::optional<std::string> {
    if (!place_->store->check({answer_to(place_->name)})) return std::nullopt;
    return place_->store->get_to_str(answer_to(place_->name));
  });
}

void answer_rank_word(const Launch& launch, const std::string& name, const std::string& text) {
  at_the_store(launch, [&](auto store) { store->set(answer_to(name), text); });
}

}  // namespace lockstep::comm
