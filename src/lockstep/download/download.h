// Downloads published files, recognises them by their hash, and keeps them whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

namespace lockstep::download {

/// A file that somebody publishes.
struct PublishedFile {
  std::string address;     ///< https://... or http://...
  std::string sha256;      ///< the hexadecimal digits that its SHA-256 begins with, lower case: 8 to 64
  int64_t most_bytes = 0;  ///< a server that sends more is refused
};

/// Bytes that were received, with those of an earlier, interrupted download; all_bytes 0: the server does
/// not say how many there are.
struct Progress {
  int64_t bytes = 0;
  int64_t all_bytes = 0;
};

struct Options {
  std::stop_token stop = {};
  std::function<void(const Progress&)> progress = {};  ///< called by the calling thread, often
};

/// Whether `path` is a file with the published file's hash. Reads all of it. Throws io, and cancelled.
bool is_there(const PublishedFile& file, const std::filesystem::path& path, const std::stop_token& stop = {});

/// Makes `path` the published file: nothing to do if it is there; otherwise it is downloaded to PATH.part,
/// checked, synced and renamed. A PATH.part of an interrupted download is continued, or begun again if the
/// server cannot continue. Of several processes, one downloads and the others wait (PATH.lock).
/// TLS certificates are checked. Redirections are followed five times, from https to https only. The
/// environment's proxies are used, as libcurl does.
/// Throws communication with the address and the reason if the server cannot be reached, refuses, or ends too
/// soon; corrupt_data if the hash is another one (nothing is left then); io if the folder cannot be written;
/// cancelled at a stop.
void fetch(const PublishedFile& file, const std::filesystem::path& path, const Options& options = {});

/// The address of `file` on a mirror: its name below the address `mirror`. Throws invalid_option if that is
/// no http or https address.
std::string on_mirror(const std::string& mirror, const std::string& address);

}  // namespace lockstep::download
