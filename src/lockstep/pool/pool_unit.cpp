#include "lockstep/pool/internal/pool_unit.h"

#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::pool {
namespace {

struct UnitHead {
  uint32_t worker = 0;
  uint32_t kind = 0;
  uint32_t start = 0;
  uint32_t size = 0;
};

}  // namespace

std::string unit_text(const Unit& unit) {
  const UnitHead head{.worker = unit.worker,
                      .kind = static_cast<uint32_t>(unit.kind),
                      .start = unit.start,
                      .size = static_cast<uint32_t>(unit.bytes.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + unit.bytes;
}

std::string word_text(uint32_t worker, uint32_t start, const Json& word) {
  return unit_text({.worker = worker,
                    .kind = UnitKind::word,
                    .start = start,
                    .bytes = word.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

std::optional<Unit> UnitReader::next() {
  UnitHead head;
  if (buffer_.size() - at_ >= sizeof head) {
    std::memcpy(&head, buffer_.data() + at_, sizeof head);
    if (head.kind > static_cast<uint32_t>(UnitKind::errors) || head.size > kMostUnitBytes)
      throw Error(ErrorCode::corrupt_data, "what came from a pool on a cluster cannot be read",
                  "is the program on the cluster the same version of Lockstep?");
    if (buffer_.size() - at_ - sizeof head >= head.size) {
      Unit unit{.worker = head.worker,
                .kind = static_cast<UnitKind>(head.kind),
                .start = head.start,
                .bytes = buffer_.substr(at_ + sizeof head, head.size)};
      at_ += sizeof head + head.size;
      return unit;
    }
  }
  buffer_.erase(0, at_);
  at_ = 0;
  return std::nullopt;
}

Json word_in(const Unit& unit) {
  Json word = Json::parse(unit.bytes, nullptr, /*allow_exceptions=*/false);
  if (unit.kind != UnitKind::word || !word.is_object() || !word.contains("kind") || !word["kind"].is_string())
    throw Error(ErrorCode::corrupt_data, "a word between a client and its pool cannot be read");
  return word;
}

}  // namespace lockstep::pool
