// What the tasks of one process share, for example decoded images.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

namespace lockstep::pool {

/// One object of each type that was requested. Any thread may call any member.
class SharedThings {
 public:
  /// The object of type T, made without arguments when it is first requested.
  template <class T>
  std::shared_ptr<T> get() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& thing = things_[typeid(T)];
    if (thing == nullptr) thing = std::make_shared<T>();
    return std::static_pointer_cast<T>(thing);
  }

 private:
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> things_;
};

}  // namespace lockstep::pool
