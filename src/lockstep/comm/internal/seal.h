// Seals what ranks leave for each other where others can read and write it. Only processes that know the
// secret can read it, and nobody else can write it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

using Secret = std::array<unsigned char, 32>;

/// The secret that belongs to a text that is hard to guess (LOCKSTEP_SECRET).
Secret secret_of(std::string_view text);

/// The value, encrypted and authenticated together with its key.
std::vector<uint8_t> seal(const Secret& secret, std::string_view key, const std::vector<uint8_t>& value);

/// The value again; nothing if it was not sealed with this secret for this key.
std::optional<std::vector<uint8_t>> unseal(const Secret& secret, std::string_view key,
                                           const std::vector<uint8_t>& sealed);

}  // namespace lockstep::comm
