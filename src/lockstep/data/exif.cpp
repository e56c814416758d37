#include "lockstep/data/internal/formats.h"

namespace lockstep::data {

// A TIFF header: byte order, 42, offset of the first table of tags. The table has entries of 12 bytes: tag,
// type, count, value.
int64_t exif_orientation(const ByteWindow& bytes_at) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  constexpr size_t kEntryBytes = 12, kMostEntries = 256;
  const std::string_view head = bytes_at(0, 8);
  if (head.size() < 8 || (head.substr(0, 2) != "II" && head.substr(0, 2) != "MM")) return 1;
  const auto number = head[0] == 'I' ? little_endian : big_endian;
  const size_t table = number(head.substr(4, 4));
  const std::string_view count_bytes = bytes_at(table, 2);
  if (count_bytes.size() < 2) return 1;
  const size_t count = std::min<size_t>(number(count_bytes), kMostEntries);
  const std::string_view entries = bytes_at(table + 2, count * kEntryBytes);
  for (size_t at = 0; at + kEntryBytes <= entries.size(); at += kEntryBytes) {
    if (number(entries.substr(at, 2)) != kOrientation) continue;
    const int64_t value = number(entries.substr(at + 8, 2));
    return number(entries.substr(at + 2, 2)) == kShort && value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

}  // namespace lockstep::data
