// The JSON header of a safetensors file, parsed event by event: anything but the one form it may have ends
// the parse at once, so that a hostile header costs no more memory than its own size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// The format's own bound: 100 MB.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

struct HeaderEntry {
  std::string name;
  std::string dtype{};
  std::vector<uint64_t> shape{};  ///< each fits a signed number
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Not yet compared with the file: offsets and types are as they stand.
struct Header {
  std::vector<HeaderEntry> entries;  ///< as listed, with unique names
  Metadata metadata;
};

struct HeaderError {
  std::string reason;
};

/// Throws HeaderError.
Header parse_safetensors_header(std::string_view text);

}  // namespace lockstep::nn
