#include "lockstep/download/sha256.h"

#include <array>
#include <fcntl.h>
#include <vector>

#include <sodium.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"

namespace lockstep::download {

struct Sha256::State {
  crypto_hash_sha256_state hash;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (::sodium_init() < 0) throw Error(ErrorCode::internal, "libsodium does not start");
  crypto_hash_sha256_init(&state_->hash);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
  crypto_hash_sha256_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256_final(&state_->hash, hash.data());
  std::string digits(2 * hash.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  digits.pop_back();
  return digits;
}

std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop) {
  constexpr size_t kPieceBytes = 1 << 20;
  const OpenFile file(path, O_RDONLY);
  Sha256 hash;
  std::vector<char> piece(kPieceBytes);
  int64_t offset = 0;
  while (const size_t got = file.read_at(offset, piece)) {
    if (stop.stop_requested())
      throw Error(ErrorCode::cancelled, "stopped while \"" + path.string() + "\" was checked");
    hash.add({piece.data(), got});
    offset += static_cast<int64_t>(got);
  }
  return hash.finish();
}

}  // namespace lockstep::download
