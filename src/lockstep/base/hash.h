// A 64-bit hash (XXH3) of weights, options and listings: fast, but not safe against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

uint64_t hash_of(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_of(std::string_view text, uint64_t seed = 0);

/// Sixteen hexadecimal digits.
std::string as_hex(uint64_t value);

}  // namespace lockstep
