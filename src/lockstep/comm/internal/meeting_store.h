// The key-value store at which ranks meet, as they use it: sealed where they have a secret. Whoever reaches
// the store can write into it, so what is not sealed with the secret counts as not being there.
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

/// What ranks that do not meet are told, with and without strangers at the store.
inline constexpr const char* kStrangers = "somebody writes there who does not know the secret of this launch";
inline constexpr const char* kMeetingHint =
    "are all ranks started, with the same MASTER_ADDR and MASTER_PORT?";
inline constexpr const char* kSecretHint =
    "give all ranks the same LOCKSTEP_SECRET, in their environment; another user may be writing there";

/// Any thread may call any member. gloo takes one too; of c10d's members it has those that gloo calls, and
/// the others throw. Throws what c10d throws, and communication when a value does not come in time.
class MeetingStore final : public c10d::Store {
 public:
  /// prefix: of all keys. Without a secret values lie in the store as they are. timeout: of get and wait.
  MeetingStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix, std::optional<Secret> secret,
               std::chrono::milliseconds timeout);

  /// The value that is there now, if one is.
  std::optional<std::string> find(const std::string& key);
  /// Puts it there where it is not. (Another program may have taken it away.)
  void keep(const std::string& key, const std::string& value);
  /// Whether something was there that was not sealed with the secret, or something that was kept there is
  /// gone.
  bool has_seen_strangers() const { return *strangers_; }
  /// The same store, for keys that begin with `prefix` after this one's.
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
      std::make_shared<std::atomic<bool>>(false);  // of all that are under one
  std::mutex mutex_;
  std::set<std::string> kept_;  // keys whose values keep() has put there; under the mutex
};

}  // namespace lockstep::comm
