// What travels between a client, the head of its pool on a cluster, and the pool's members: pieces of the
// streams of each worker, and words between the three.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::pool {

enum class UnitKind : uint8_t {
  word,    ///< JSON
  bytes,   ///< frames between client and worker (channel.h)
  output,  ///< what the worker wrote on standard output
  errors,  ///< and on standard error
};

/// In place of a worker's number: the word is for the head, or from it.
inline constexpr uint32_t kHeadUnit = 0xffffffff;

struct Unit {
  uint32_t worker = 0;
  UnitKind kind = UnitKind::word;
  uint32_t start = 0;  ///< which start of the worker it belongs to, from 1
  std::string bytes{};
};

/// The largest unit. Streams are cut into smaller pieces.
inline constexpr size_t kMostUnitBytes = size_t{64} << 20;
inline constexpr size_t kUnitPiece = size_t{256} << 10;

std::string unit_text(const Unit& unit);
std::string word_text(uint32_t worker, uint32_t start, const Json& word);

/// Takes bytes as they arrive and gives whole units.
class UnitReader {
 public:
  std::string& buffer() { return buffer_; }
  /// Throws corrupt_data for what cannot be a unit.
  std::optional<Unit> next();

 private:
  std::string buffer_;
  size_t at_ = 0;
};

/// The word in a unit. Throws corrupt_data for anything but a JSON object with a `kind`.
Json word_in(const Unit& unit);

}  // namespace lockstep::pool
