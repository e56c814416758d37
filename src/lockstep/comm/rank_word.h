// One text that rank 0 gives to the other ranks of a launch before they are a group.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/launch/launcher.h"
#include "lockstep/comm/patience.h"

namespace lockstep::comm {

/// Rank 0's side. The text is available while this object lives, until the launch gives the next text of this
/// name.
class RankWord {
 public:
  /// name: the purpose of the text. Throws communication.
  RankWord(const launch::Launch& launch, const std::string& name, const std::string& text,
           const Waiting& waiting = {});
  ~RankWord();
  RankWord(const RankWord&) = delete;
  RankWord& operator=(const RankWord&) = delete;

  /// Writes the text again if another program has removed it. Throws communication.
  void keep() const;

  /// Where the ranks meet, for messages.
  std::string place() const;

  /// The answer of one of the other ranks, if there is one; does not wait. Throws communication.
  std::optional<std::string> answer() const;

 private:
  struct Place;
  std::unique_ptr<Place> place_;
};

/// The other ranks' side: waits for the text. Throws communication.
std::string read_rank_word(const launch::Launch& launch, const std::string& name,
                           const Waiting& waiting = {});

/// Gives rank 0 a text in return, which replaces that of another rank. Throws communication.
void answer_rank_word(const launch::Launch& launch, const std::string& name, const std::string& text);

}  // namespace lockstep::comm
