// The key-value store at which ranks meet, sealed if they have a secret. Anybody who reaches the store can
// write to it, so a value that is not sealed with the secret is ignored.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/internal/seal.h"

namespace lockstep::comm {

/// Texts for ranks that do not meet, with and without strangers at the store.
inline constexpr const char* kStrangers = "somebody writes there who does not know the secret of this launch";
inline constexpr const char* kMeetingHint =
    "are all ranks started, with the same MASTER_ADDR and MASTER_PORT?";
inline constexpr const char* kSecretHint =
    "give all ranks the same LOCKSTEP_SECRET, in their environment; another user may be writing there";

/// Any thread may call any member. gloo uses one too: the members of c10d::Store that gloo calls are
/// implemented, and the others throw. Throws what c10d throws, and communication when a value does not come
/// in time.
class MeetingStore final : public c10d::Store {
 public:
  /// prefix: of all keys. Without a secret values are stored as they are. timeout: the longest
  /// time for which get and wait wait; gloo asks for minutes, and the launch may allow less.
  MeetingStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix, std::optional<Secret> secret,
               std::chrono::milliseconds timeout);

  /// The current value, if there is one.
  std::optional<std::string> find(const std::string& key);
  /// Writes the value if it is missing. (Another program may have removed it.)
  void keep(const std::string& key, const std::string& value);
  /// Whether the store had a value that was not sealed with the secret, or has lost a kept value.
  bool has_seen_strangers() const { return *strangers_; }
  /// The same store for keys that begin with this store's prefix and then `prefix`.
  c10::intrusive_ptr<MeetingStore> under(const std::string& prefix) const;

  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  bool hasExtendedApi() const override { return false; }
  c10::intrusive_ptr<c10d::Store> clone() override { return under(""); }
  int64_t add(const std::string& key, int64_t value) override;
  int64_t getNumKeys() override;

 private:
  std::optional<std::vector<uint8_t>> read(const std::string& key);
  std::vector<uint8_t> await(const std::string& key, std::chrono::milliseconds timeout);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
  const std::optional<Secret> secret_;
  std::shared_ptr<std::atomic<bool>> strangers_ =
      std::make_shared<std::atomic<bool>>(false);  // shared by all stores under one
  std::mutex mutex_;
  std::set<std::string> kept_;  // keys whose values keep() has written; under the mutex
};

}  // namespace lockstep::comm
