#include "lockstep/comm/internal/meeting_store.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/patience.h"

namespace lockstep::comm {
namespace {

const std::vector<uint8_t> kNothing{'n', 'o', 't', 'h', 'i', 'n', 'g'};

}  // namespace

MeetingStore::MeetingStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix,
                           std::optional<Secret> secret, std::chrono::milliseconds timeout)
    : c10d::Store(timeout), store_(std::move(store)), prefix_(std::move(prefix)), secret_(secret) {}

c10::intrusive_ptr<MeetingStore> MeetingStore::under(const std::string& prefix) const {
  auto other = c10::make_intrusive<MeetingStore>(store_, prefix_ + prefix, secret_, timeout_);
  other->strangers_ = strangers_;
  return other;
}

void MeetingStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  const std::string full = prefix_ + key;
  store_->set(full, secret_ ? seal(*secret_, full, value) : value);
}

std::optional<std::vector<uint8_t>> MeetingStore::read(const std::string& key) {
  const std::string full = prefix_ + key;
  // c10d's get waits for a missing key, also for one that another program has just removed. This does not
  // change the store, and returns the value that is there or else kNothing.
  std::vector<uint8_t> value = store_->compareSet(full, kNothing, kNothing);
  if (value == kNothing) return std::nullopt;
  if (!secret_) return value;
  std::optional<std::vector<uint8_t>> own = unseal(*secret_, full, value);
  if (!own) *strangers_ = true;
  return own;
}

std::optional<std::string> MeetingStore::find(const std::string& key) {
  const auto value = read(key);
  return value ? std::optional(std::string(value->begin(), value->end())) : std::nullopt;
}

void MeetingStore::keep(const std::string& key, const std::string& value) {
  const std::optional<std::string> there = find(key);
  if (there == value) return;
  set(key, value);
  const std::lock_guard lock(mutex_);
  // Ranks overwrite the values that they keep, and remove none.
  if (!kept_.insert(key).second && !there && secret_) *strangers_ = true;
}

std::vector<uint8_t> MeetingStore::await(const std::string& key, std::chrono::milliseconds timeout) {
  Patience patience({.limit = timeout});
  while (true) {
    if (auto value = read(key)) return std::move(*value);
    if (patience.is_over()) {
      throw Error(ErrorCode::communication,
                  "no rank said \"" + prefix_ + key + "\" within " + patience.limit_text() +
                      (*strangers_ ? std::string("; ") + kStrangers : ", or another program took it away"),
                  *strangers_ ? kSecretHint : kMeetingHint);
    }
    patience.sleep({});
  }
}

std::vector<uint8_t> MeetingStore::get(const std::string& key) { return await(key, timeout_); }

bool MeetingStore::deleteKey(const std::string& key) { return store_->deleteKey(prefix_ + key); }

bool MeetingStore::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (!read(key)) return false;
  }
  return true;
}

void MeetingStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  for (const std::string& key : keys) await(key, std::min(timeout, timeout_));
}

int64_t MeetingStore::add(const std::string&, int64_t) {
  throw Error(ErrorCode::internal, "ranks do not count at the store where they meet");
}

int64_t MeetingStore::getNumKeys() {
  throw Error(ErrorCode::internal, "ranks do not count the keys of the store where they meet");
}

}  // namespace lockstep::comm
