#include "lockstep/io/address.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::io {
namespace {

constexpr std::string_view kMark = "://";

// An address option is a secret if its name contains one of these.
constexpr std::array<std::string_view, 6> kSecretWords{"secret",   "key",       "token",
                                                       "password", "signature", "credential"};
constexpr std::string_view kSharedSignature = "sig";        // Azure's
constexpr std::string_view kKindOfKey = "credential_kind";  // Azure's: how the key is found
constexpr std::string_view kNobody = "anonymous";           // Google's: without a key

std::string_view authority_of(std::string_view address) {
  const std::string_view rest = address.substr(address.find(kMark) + kMark.size());
  const std::string_view plain = rest.substr(0, rest.find_first_of("/?#"));
  // NAME:SECRET@bucket, with a slash in the secret.
  const size_t at = rest.substr(0, rest.find('?')).rfind('@');
  if (plain.find(':') == std::string_view::npos || plain.find('@') != std::string_view::npos ||
      at == std::string_view::npos)
    return plain;
  return rest.substr(0, rest.find_first_of("/?#", at));
}

bool is_secret(std::string_view option) {
  const std::string name = lower(option.substr(0, option.find('=')));
  if (name == kSharedSignature) return true;
  return name != kKindOfKey &&
         std::any_of(kSecretWords.begin(), kSecretWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

std::string_view scheme_of(std::string_view text) {
  const size_t mark = text.find(kMark);
  if (mark == std::string_view::npos || mark == 0) return {};
  const std::string_view scheme = text.substr(0, mark);
  const bool plain = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+';
  });
  return plain ? scheme : std::string_view();
}

bool is_address(std::string_view text) { return !scheme_of(text).empty(); }

std::string public_name(std::string_view text) {
  const std::string_view scheme = scheme_of(text);
  if (scheme.empty()) return std::string(text);
  const std::string_view authority = authority_of(text);
  const std::string_view place = text.substr(static_cast<size_t>(authority.data() - text.data()));
  const size_t at = authority.rfind('@');
  // An Azure address needs both parts of container@account.
  const bool is_account = scheme.starts_with("abfs") && authority.find(':') == std::string_view::npos;
  std::string name = std::string(scheme) + std::string(kMark) +
                     std::string(place.substr(at == std::string_view::npos || is_account ? 0 : at + 1));
  name.resize(std::min(name.find('?'), name.size()));
  while (name.ends_with('/') && !name.ends_with(kMark)) name.pop_back();
  return name;
}

void refuse_secrets(std::string_view text) {
  if (!is_address(text)) return;
  const std::string_view authority = authority_of(text);
  const size_t at = authority.rfind('@');
  const bool in_front =
      at != std::string_view::npos && authority.substr(0, at) != kNobody &&
      (!scheme_of(text).starts_with("abfs") || authority.substr(0, at).find(':') != std::string_view::npos);
  const size_t query = text.find('?');
  const std::vector<std::string> options =
      query == std::string_view::npos ? std::vector<std::string>() : split(text.substr(query + 1), '&');
  if (!in_front && std::none_of(options.begin(), options.end(), is_secret)) return;
  throw Error(ErrorCode::invalid_option,
              "the address \"" + public_name(text) +
                  "\" contains a key or password, which other users of this machine can read",
              "remove it, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the "
              "environment; replace the key if others may have seen it");
}

}  // namespace lockstep::io
