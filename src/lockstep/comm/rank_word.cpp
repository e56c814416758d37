#include "lockstep/comm/rank_word.h"

#include "lockstep/comm/internal/store.h"

namespace lockstep::comm {
namespace {

std::string answer_to(const std::string& name) { return name + "/answer"; }

template <class Work>
auto at_the_store(const launch::Launch& launched, const Waiting& waiting, const Work& work) {
  const launch::Launch launch = at_meeting_place(launched);
  return at_meeting(launch, [&] {
    Patience patience(waiting_of(launch, waiting));
    OpenStore open = open_store(launch, patience);
    return work(launch, std::move(open), patience);
  });
}

}  // namespace

struct RankWord::Place {
  launch::Launch launch;
  OpenStore open;
  std::string name, text;
};

RankWord::RankWord(const launch::Launch& launched, const std::string& name, const std::string& text,
                   const Waiting& waiting)
    : place_(at_the_store(launched, waiting, [&](const launch::Launch& launch, OpenStore open, Patience&) {
        open.store->set(name, text);
        return std::make_unique<Place>(Place{launch, std::move(open), name, text});
      })) {}

RankWord::~RankWord() {
  try {
    for (const std::string& key : {place_->name, answer_to(place_->name)})
      place_->open.store->deleteKey(
          key);  // the launcher's store may outlive this program and serve the next one
  } catch (...) {
    // The store is gone, and so is the text.
  }
}

void RankWord::keep() const {
  at_meeting(place_->launch, [&] {
    place_->open.keep();
    place_->open.store->keep(place_->name, place_->text);
  });
}

std::optional<std::string> RankWord::answer() const {
  return at_meeting(place_->launch, [&] { return place_->open.store->find(answer_to(place_->name)); });
}

std::string RankWord::place() const { return place_of(place_->launch); }

std::string read_rank_word(const launch::Launch& launched, const std::string& name, const Waiting& waiting) {
  return at_the_store(
      launched, waiting, [&](const launch::Launch& launch, const OpenStore& open, Patience& patience) {
        while (true) {
          if (auto text = open.store->find(name)) return *text;
          const std::string rank_0 = "rank 0 at " + open.place(launch);
          if (patience.is_over())
            throw Error(ErrorCode::communication,
                        who(launch) + " gave up after " + patience.limit_text() + " of waiting for " + rank_0,
                        open.hint());
          patience.sleep([&] { return name_of_rank(launch) + " waits for " + rank_0; });
        }
      });
}

void answer_rank_word(const launch::Launch& launched, const std::string& name, const std::string& text) {
  at_the_store(launched, {}, [&](const launch::Launch&, const OpenStore& open, Patience&) {
    open.store->set(answer_to(name), text);
  });
}

}  // namespace lockstep::comm
