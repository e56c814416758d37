// The seam to the library that reads object stores (s3://, gs://, abfss://): one file, opened when the first
// address is, so that a program that reads none neither loads it nor needs it.
#pragma once

#include <memory>
#include <string>

#include "lockstep/io/byte_store.h"

namespace lockstep::io {

/// What the library offers. One object, for the life of the process; any thread. Its stores try each request
/// a few times, for at most about 15 s, and then throw: communication when no answer came, so that trying
/// again later may help; invalid_option when the server refuses us; not_found. Keys are found as the AWS
/// tools find them, and stand in no message.
class CloudLibrary {
 public:
  virtual ~CloudLibrary() = default;
  virtual std::string version() const = 0;  ///< "Arrow 26.0.1"
  virtual std::shared_ptr<const ByteStore> open(const std::string& address) const = 0;
  virtual std::unique_ptr<ByteSink> open_sink(const std::string& address) const = 0;
};

struct CloudState {
  const CloudLibrary* library = nullptr;  ///< null when it cannot be used
  std::string note;                       ///< why not
  std::string hint;                       ///< what to do about it
};

/// Opens the library on the first call. Any thread; never throws for a library that cannot be used.
const CloudState& inspect_cloud();

/// How long a store that has answered once is waited for when it stops answering.
inline constexpr int64_t kOutageSeconds = 60;

/// `store` with patience: a read that fails with communication is tried again until kOutageSeconds after its
/// first failure, or until current_stop() is requested. Listing and size_of are not: a server that does not
/// answer from the start is told at once.
std::shared_ptr<const ByteStore> with_patience(std::shared_ptr<const ByteStore> store,
                                               int64_t seconds = kOutageSeconds);

/// The name of the function `const CloudLibrary* f()` that the library exports; another number when this
/// header or byte_store.h changes.
inline constexpr const char* kCloudLibrarySymbol = "lockstep_object_store_library_2";

}  // namespace lockstep::io
