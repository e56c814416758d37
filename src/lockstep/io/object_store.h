// The interface to the library that reads object stores (s3://, gs://, abfss://). It is opened with the first
// address, so a program that uses none neither loads nor needs it.
#pragma once

#include <memory>
#include <string>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

/// The library's interface. One object for the life of the process; any thread may use it. Its stores retry
/// each request a few times, for at most about 15 s, and then throw communication if no answer came (a later
/// attempt may succeed), invalid_option if the server denies access, or not_found. Keys are found as the AWS
/// tools find them, and no message contains them.
class CloudLibrary {
 public:
  virtual ~CloudLibrary() = default;
  virtual std::string version() const = 0;  ///< "Arrow 26.0.1"
  virtual std::shared_ptr<const ByteStore> open(const std::string& address) const = 0;
  virtual std::unique_ptr<ByteSink> open_sink(const std::string& address) const = 0;
};

struct CloudState {
  const CloudLibrary* library = nullptr;  ///< null if the library cannot be used
  std::string note;                       ///< why it cannot be used
  std::string hint;                       ///< how to fix it
};

/// Opens the library on the first call. Any thread; does not throw if the library cannot be used.
const CloudState& inspect_cloud();

/// How long to wait for a store that answered before and then stopped answering.
inline constexpr int64_t kOutageSeconds = 60;

/// Wraps `store` so that a read that fails with communication is retried until kOutageSeconds after its first
/// failure, or until current_stop() is requested. Listing and size_of are not retried: a server that does not
/// answer at the start is reported at once.
std::shared_ptr<const ByteStore> with_patience(std::shared_ptr<const ByteStore> store,
                                               int64_t seconds = kOutageSeconds);

/// The name of the function `const CloudLibrary* f()` that the library exports. The number changes whenever
/// this header or byte_store.h changes.
inline constexpr const char* kCloudLibrarySymbol = "lockstep_object_store_library_2";

}  // namespace lockstep::io
