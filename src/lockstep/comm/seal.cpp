#include "lockstep/comm/internal/seal.h"

#include <algorithm>

#include <sodium.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

static_assert(std::tuple_size_v<Secret> == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
constexpr size_t kNonce =
    crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;  // so long that two random ones are never equal
constexpr size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::string_view kPurpose = "lockstep: what ranks tell each other when they meet";

void start_library() {
  if (::sodium_init() < 0) throw Error(ErrorCode::internal, "libsodium does not start");
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Secret secret_of(std::string_view text) {
  start_library();
  Secret secret{};
  crypto_generichash(secret.data(), secret.size(), bytes_of(text), text.size(), bytes_of(kPurpose),
                     std::min<size_t>(kPurpose.size(), crypto_generichash_KEYBYTES_MAX));
  return secret;
}

std::vector<uint8_t> seal(const Secret& secret, std::string_view key, const std::vector<uint8_t>& value) {
  start_library();
  std::vector<uint8_t> sealed(kNonce + value.size() + kTag);
  randombytes_buf(sealed.data(), kNonce);
  crypto_aead_xchacha20poly1305_ietf_encrypt(sealed.data() + kNonce, nullptr, value.data(), value.size(),
                                             bytes_of(key), key.size(), nullptr, sealed.data(),
                                             secret.data());
  return sealed;
}

std::optional<std::vector<uint8_t>> unseal(const Secret& secret, std::string_view key,
                                           const std::vector<uint8_t>& sealed) {
  if (sealed.size() < kNonce + kTag) return std::nullopt;
  start_library();
  std::vector<uint8_t> value(sealed.size() - kNonce - kTag);
  const int failed = crypto_aead_xchacha20poly1305_ietf_decrypt(
      value.data(), nullptr, nullptr, sealed.data() + kNonce, sealed.size() - kNonce, bytes_of(key),
      key.size(), sealed.data(), secret.data());
  return failed == 0 ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace lockstep::comm
