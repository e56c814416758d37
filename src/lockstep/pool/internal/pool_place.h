// Where the members of a pool on a cluster find its head: a file of their job that only its user can read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::pool {

struct PoolPlace {
  std::vector<std::string> addresses{};  ///< of the head's machine; one of them is reachable
  int64_t port = 0;
  std::string secret{};  ///< made for the pool; known to nobody else
  int64_t first = 0;     ///< the job's rank 0 is this worker
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("addresses", self.addresses, "");
    field("port", self.port, "");
    field("secret", self.secret, "");
    field("first", self.first, "");
  };
};

/// Writes the file in a folder that only its user can enter. Throws io.
void write_pool_place(const std::filesystem::path& folder, const PoolPlace& place);
void remove_pool_place(const std::filesystem::path& folder);
/// Throws not_found, corrupt_data.
PoolPlace read_pool_place(const std::filesystem::path& folder);
/// Reads a descriptor to its end. Throws io, corrupt_data.
PoolPlace pool_place_on(int descriptor);
/// Throws corrupt_data.
PoolPlace pool_place_in(const std::string& text);

}  // namespace lockstep::pool
