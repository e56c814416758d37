// SHA-256 (FIPS 180-4), by which published files are recognised.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

namespace lockstep::download {

/// The hash of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  /// 64 hexadecimal digits of all bytes so far. Nothing may be added after it.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of a file's bytes. Throws not_found, io, and cancelled at a stop.
std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop = {});

}  // namespace lockstep::download
