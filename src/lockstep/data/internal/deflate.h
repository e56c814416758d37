// What Deflate can expand: the same for PNG and for gzip.
#pragma once

#include <cstdint>

namespace lockstep::data {

/// No byte expands to more. Deflate's limit is 1,032 (zlib.net/zlib_tech.html); the rest is for headers.
inline constexpr int64_t kMostInflation = 1040;

}  // namespace lockstep::data
