// One text that rank 0 gives to the other ranks of a launch before they have anything else in common.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/launcher.h"
#include "lockstep/comm/patience.h"

namespace lockstep::comm {

/// Rank 0's side: the text can be had while this lives, for as long as the launch's next one of this name is not there.
class RankWord {
 public:
  /// name: what it is for. Throws communication.
  RankWord(const Launch& launch, const std::string& name, const std::string& text,
           const Waiting& waiting = {});
  ~RankWord();
  RankWord(const RankWord&) = delete;
  RankWord& operator=(const RankWord&) = delete;

  /// Puts the text there again where another program has taken it away. Throws communication.
  void keep() const;

  /// Where the ranks meet, for messages.
  std::string place() const;

  /// What one of the other ranks answered, if one did; without waiting. Throws communication.
  std::optional<std::string> answer() const;

 private:
  struct Place;
  std::unique_ptr<Place> place_;
};

/// The other ranks' side: waits for the text. Throws communication.
std::string read_rank_word(const Launch& launch, const std::string& name, const Waiting& waiting = {});

/// ... gives rank 0 a text in return, in place of what another rank gave. Throws communication.
void answer_rank_word(const Launch& launch, const std::string& name, const std::string& text);

}  // namespace lockstep::comm
