#include "lockstep/base/json.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr size_t kMostDepth = 32;  // a manifest with its network needs about 6
constexpr size_t kMostKeys =
    1'000;  // options have about a hundred; each insertion searches all keys of its object
constexpr size_t kMostValues = 2'000'000;  // a plan of a million classes has a value for each
constexpr size_t kMostReasonBytes = 300;   // the parser quotes the word at which it stopped, of any length
constexpr size_t kMostQuotedBytes = 80;

[[noreturn]] void refuse_twice(const std::string& name) {
  const std::string key = name.size() > kMostQuotedBytes
                              ? "a key of " + std::to_string(name.size()) + " bytes"
                              : "\"" + name + "\"";
  throw JsonError(key + " stands twice in one JSON object");
}

/// nlohmann's SAX interface. The library's own builder has no bounds, and with a callback it searches the
/// whole parent at each end of an object.
class Builder {
 public:
  explicit Builder(KeyTwice twice) : twice_(twice) {}

  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(Json::binary_t&) { return false; }  // texts have none

  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& fields = open_.back()->get_ref<Json::object_t&>();
    const size_t had = fields.size();
    field_ = &fields[name];
    if (fields.size() == had && twice_ == KeyTwice::refused) refuse_twice(name);
    if (fields.size() > kMostKeys)
      throw JsonError("an object in it has more than " + with_commas(kMostKeys) + " keys");
    return true;
  }

  template <class Exception>
  bool parse_error(size_t, const std::string&, [[maybe_unused]] const Exception& error) {
    if constexpr (std::is_same_v<Exception, Json::parse_error>) {
      std::string reason = error.what();
      reason.erase(0, reason.find("] ") + 2);  // the library's name of the exception
      if (reason.size() > kMostReasonBytes)
        reason.resize(std::min(reason.find("; last read: '"), kMostReasonBytes));
      throw JsonError(reason, error.byte);
    } else {
      throw JsonError("a number in it is too large");
    }
  }

 private:
  Json* put(Json value) {
    if (++values_ > kMostValues) throw JsonError("it has more than " + with_commas(kMostValues) + " values");
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*field_ = std::move(value));
    auto& items = open_.back()->get_ref<Json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }

  bool add(Json value) {
    put(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() == kMostDepth)
      throw JsonError("it is nested deeper than " + std::to_string(kMostDepth) + " levels");
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  KeyTwice twice_;
  Json root_;
  Json* field_ = nullptr;    // the value of the key that was read last
  std::vector<Json*> open_;  // they do not move: what contains them does not grow before they are closed
  size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, KeyTwice twice) {
  Builder builder(twice);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace lockstep
