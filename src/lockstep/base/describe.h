// Options described once. A struct of options lists its fields in a static member `describe`; command line,
// JSON files, manifests, help and docs are all visitors over it:
//
//   struct Sgdm {
//     double learning_rate = 0.01;
//     static constexpr auto describe = [](auto& self, auto&& field) {
//       field("learning-rate", self.learning_rate, "step size at epoch 0", above(0));
//     };
//   };
//
// A number on a command line has a least and a greatest value, because larger numbers could overflow in
// products; a test checks all commands. An option of a training also says what it affects, before its help.
// A call with one text, field("Data"), starts a section. A field is bool, int64_t, double, std::string,
// std::vector<int64_t>, std::vector<std::string> (on a command line separated by commas) or an enum with
// `constexpr auto enum_names(Enum)`, an array of its names in order. JSON alone also takes a described struct
// (an object), std::vector of numbers or described structs, and std::optional (absent when empty).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/field_traits.h"
#include "lockstep/base/json.h"

namespace lockstep {

/// One field as help, docs and forms show it.
struct FieldInfo {
  std::string section;
  std::string name;
  std::string help;
  std::string type;  ///< "switch", "integer", "number", "text", "integers", "texts", or "a|b|c"
  std::vector<std::string> choices;
  std::string default_text;
  FieldTraits traits;
  void (*check_text)(std::string_view name, std::string_view text, FieldTraits traits) = nullptr;

  /// Throws what set_field would for this text.
  void check(std::string_view text) const;
  /// Whether a word of a command line names it: "--rate".
  bool is_option(std::string_view word) const {
    return word.starts_with("--") &&
           (word.substr(2) == name || (traits.alias != nullptr && word.substr(2) == traits.alias));
  }
  std::string alias() const { return traits.alias == nullptr ? "" : traits.alias; }
};

template <class T>
concept Described = requires {
  T::describe;
};

template <Described T>
Json to_json(const T& options);
template <Described T>
std::vector<std::string> read_json(const Json& json, T& options, std::string_view where);

namespace describe_detail {

inline bool is_called(std::string_view name, const char* field, const FieldTraits& traits) {
  return name == field || (traits.alias != nullptr && name == traits.alias);
}

// Runs `work`; an Error of it without a hint gets `help`, which says what the field means.
template <class Work>
void with_help(const char* help, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    if (!error.hint().empty() || *help == 0) throw;
    throw Error(error.code(), error.message(), help);
  }
}

// A field's value to and from text and JSON. Throws invalid_option that names the field, the value and what
// is allowed.
std::string text_of(bool value);
std::string text_of(int64_t value);
std::string text_of(double value);
std::string text_of(const std::string& value);
std::string text_of(const std::vector<int64_t>& value);
std::string text_of(const std::vector<std::string>& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, bool& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, int64_t& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, double& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, std::string& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, std::vector<int64_t>& value);
void parse(std::string_view name, std::string_view text, FieldTraits traits, std::vector<std::string>& value);
void read(std::string_view name, const Json& json, FieldTraits traits, bool& value);
void read(std::string_view name, const Json& json, FieldTraits traits, int64_t& value);
void read(std::string_view name, const Json& json, FieldTraits traits, double& value);
void read(std::string_view name, const Json& json, FieldTraits traits, std::string& value);
void read(std::string_view name, const Json& json, FieldTraits traits, std::vector<int64_t>& value);
void read(std::string_view name, const Json& json, FieldTraits traits, std::vector<double>& value);
void read(std::string_view name, const Json& json, FieldTraits traits, std::vector<std::string>& value);
void check_list(std::string_view name, const Json& json);
size_t parse_choice(std::string_view name, std::string_view text, const std::vector<std::string>& choices);
[[noreturn]] void unknown_field(std::string_view name, const std::vector<std::string>& known);
[[noreturn]] void given_twice(const char* field, const FieldTraits& traits);
[[noreturn]] void no_options();
std::string text_in(std::string_view name, const Json& json);

template <class T>
std::vector<std::string> choices_of() {
  std::vector<std::string> choices;
  if constexpr (std::is_enum_v<T>) {
    for (const char* choice : enum_names(T{})) choices.emplace_back(choice);
  }
  return choices;
}

template <class T>
std::string type_of() {
  if constexpr (std::is_enum_v<T>) {
    std::string text;
    for (const std::string& choice : choices_of<T>()) text += (text.empty() ? "" : "|") + choice;
    return text;
  } else if constexpr (std::is_same_v<T, bool>) {
    return "switch";
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return "integer";
  } else if constexpr (std::is_same_v<T, double>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return "texts";
  } else {
    static_assert(std::is_same_v<T, std::vector<int64_t>>,
                  "this type of option is not known; see the head of describe.h");
    return "integers";
  }
}

template <class T>
std::string as_text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return enum_names(T{})[static_cast<size_t>(value)];
  } else {
    return text_of(value);
  }
}

template <class T>
void from_text(std::string_view name, std::string_view text, FieldTraits traits, T& value) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(parse_choice(name, text, choices_of<T>()));
  } else {
    parse(name, text, traits, value);
  }
}

template <class T>
struct ElementOf {};
template <class T>
struct ElementOf<std::optional<T>> {
  using Optional = T;
};
template <Described T>
struct ElementOf<std::vector<T>> {
  using Struct = T;
};

template <class T>
void from_json(std::string_view name, const Json& json, FieldTraits traits, T& value) {
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(parse_choice(name, text_in(name, json), choices_of<T>()));
  } else if constexpr (Described<T>) {
    read_json(json, value, "");
  } else if constexpr (requires { typename ElementOf<T>::Optional; }) {
    from_json(name, json, traits, value.emplace());
  } else if constexpr (requires { typename ElementOf<T>::Struct; }) {
    check_list(name, json);
    value.clear();
    for (const Json& item : json) read_json(item, value.emplace_back(), "");
  } else {
    read(name, json, traits, value);
  }
}

template <class T>
void put_json(Json& object, const char* name, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    object[name] = as_text(value);
  } else if constexpr (Described<T>) {
    object[name] = lockstep::to_json(value);
  } else if constexpr (requires { typename ElementOf<T>::Optional; }) {
    if (value) put_json(object, name, *value);
  } else if constexpr (requires { typename ElementOf<T>::Struct; }) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(lockstep::to_json(item));
    object[name] = std::move(list);
  } else {
    object[name] = value;
  }
}

// Lets one lambda serve as a describe visitor: sections are dropped.
template <class F>
struct FieldVisitor {
  F f;
  constexpr void operator()(const char*) {}
  template <class T>
  constexpr void operator()(const char* name, T& value, const char* help = "", FieldTraits traits = {}) {
    f(name, value, help, traits);
  }
  template <class T>
  constexpr void operator()(const char* name, T& value, Affects affects, const char* help,
                            FieldTraits traits = {}) {
    traits.affects = affects;
    f(name, value, help, traits);
  }
};
template <class F>
FieldVisitor(F) -> FieldVisitor<F>;

struct ListingVisitor {
  std::vector<FieldInfo> fields;
  std::string section;
  void operator()(const char* title) { section = title; }
  template <class T>
  void operator()(const char* name, T& value, Affects affects, const char* help, FieldTraits traits = {}) {
    traits.affects = affects;
    (*this)(name, value, help, traits);
  }
  template <class T>
  void operator()(const char* name, T& value, const char* help, FieldTraits traits = {}) {
    fields.push_back({section, name, help, type_of<T>(), choices_of<T>(), as_text(value), traits,
                      [](std::string_view called, std::string_view text, FieldTraits allowed) {
                        T any{};
                        from_text(called, text, allowed, any);
                      }});
  }
};

struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT: only named, never called
};
template <class T, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{((void)I, AnyValue{})...}; };
}
template <class T, size_t N = 0>
constexpr size_t arity() {
  if constexpr (!takes<T>(std::make_index_sequence<N + 1>{})) {
    return N;
  } else {
    return arity<T, N + 1>();
  }
}

// Room for a T that is not made. Counting only names the members, so they need no constructors that a
// constant may call: to Clang, g++ 12's std::string has none.
template <class T>
union Room {
  char none = 0;
  T value;
  constexpr Room() {}
  constexpr ~Room() {}
};

template <class T>
consteval size_t described_count() {
  Room<T> room;
  size_t count = 0;
  T::describe(room.value, FieldVisitor{[&](auto&&...) { ++count; }});
  return count;
}

}  // namespace describe_detail

inline void FieldInfo::check(std::string_view text) const {
  describe_detail::with_help(help.c_str(), [&] { check_text(name, text, traits); });
}

/// A line may stand for a member of a member.
template <Described T>
constexpr void check_described() {
  static_assert(describe_detail::described_count<T>() >= describe_detail::arity<T>(),
                "every member of the struct needs its line in describe");
}

/// Every field in order, with the defaults of a fresh T.
template <Described T>
std::vector<FieldInfo> fields_of() {
  check_described<T>();
  describe_detail::ListingVisitor visitor;
  T value{};
  T::describe(value, visitor);
  return std::move(visitor.fields);
}

template <Described T>
std::vector<std::string> field_names() {
  check_described<T>();
  std::vector<std::string> names;
  T value{};
  T::describe(value,
              describe_detail::FieldVisitor{[&](const char* name, auto&&...) { names.push_back(name); }});
  return names;
}

/// Sets one field from text, as on a command line. Throws invalid_option for an unknown name (with the
/// nearest) or a bad value.
template <Described T>
void set_field(T& options, std::string_view name, std::string_view text) {
  bool found = false;
  T::describe(options, describe_detail::FieldVisitor{
                           [&](const char* field, auto& value, const char* help, FieldTraits traits) {
                             if (!describe_detail::is_called(name, field, traits)) return;
                             found = true;
                             describe_detail::with_help(
                                 help, [&] { describe_detail::from_text(name, text, traits, value); });
                           }});
  if (!found) describe_detail::unknown_field(name, field_names<T>());
}

/// Throws invalid_option where a field's value is none that set_field takes, for structs that a program
/// filled in.
template <Described T>
void check_values(const T& options) {
  T::describe(options, describe_detail::FieldVisitor{[&](const char* field, auto& value, const char* help,
                                                         FieldTraits traits) {
                auto copy = value;
                describe_detail::with_help(help, [&] {
                  describe_detail::from_text(field, describe_detail::as_text(value), traits, copy);
                });
              }});
}

/// The field's value as text that set_field reads back.
template <Described T>
std::string field_text(const T& options, std::string_view name) {
  std::string text;
  T::describe(options,
              describe_detail::FieldVisitor{[&](const char* field, auto& value, const char*, FieldTraits) {
                if (name == field) text = describe_detail::as_text(value);
              }});
  return text;
}

template <Described T>
Json to_json(const T& options) {
  Json json = Json::object();
  T::describe(options,
              describe_detail::FieldVisitor{[&](const char* field, auto& value, const char*, FieldTraits) {
                describe_detail::put_json(json, field, value);
              }});
  return json;
}

/// Sets the fields that `json` (an object) names; the others stay. `where` is for messages: what is read,
/// such as a file's name in quotes; empty: they do not say. Returns the fields that were set.
template <Described T>
std::vector<std::string> read_json(const Json& json, T& options, std::string_view where) {
  std::vector<std::string> names;
  const auto read = [&] {
    if (!json.is_object()) describe_detail::no_options();
    for (const auto& [key, item] : json.items()) {
      bool found = false;
      T::describe(options, describe_detail::FieldVisitor{
                               [&](const char* field, auto& value, const char* help, FieldTraits traits) {
                                 if (!describe_detail::is_called(key, field, traits)) return;
                                 found = true;
                                 if (std::find(names.begin(), names.end(), field) != names.end())
                                   describe_detail::given_twice(field, traits);
                                 describe_detail::with_help(
                                     help, [&] { describe_detail::from_json(key, item, traits, value); });
                                 names.push_back(field);
                               }});
      if (!found) describe_detail::unknown_field(key, field_names<T>());
    }
  };
  if (where.empty()) {
    read();
  } else {
    with_context([&] { return "while reading " + std::string(where); }, read);
  }
  return names;
}

}  // namespace lockstep
