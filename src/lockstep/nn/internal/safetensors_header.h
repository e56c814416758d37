// Parses the JSON header of a safetensors file event by event. Parsing stops at once if the format is
// violated, so a malicious header costs no more memory than its own size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/safetensors.h"

namespace lockstep::nn {

/// The format's limit: 100 MB.
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

struct HeaderEntry {
  std::string name;
  std::string dtype{};
  std::vector<uint64_t> shape{};  ///< each fits a signed number
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Not yet checked against the file: offsets and types are as written.
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
