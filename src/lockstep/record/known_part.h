// Reading described structs that a later version may have extended.
#pragma once

#include <type_traits>

#include "lockstep/base/describe.h"
#include "lockstep/base/json.h"

namespace lockstep::record {

/// The object with the fields that T describes, and without all others, also in described members.
template <Described T>
Json known_part(const Json& json) {
  Json known = Json::object();
  T value{};
  T::describe(value, describe_detail::FieldVisitor{[&](const char* name, auto& field, auto&&...) {
                const auto found = json.find(name);
                if (found == json.end()) return;
                using Field = std::remove_reference_t<decltype(field)>;
                if constexpr (Described<Field>) {
                  known[name] = known_part<Field>(*found);
                } else {
                  known[name] = *found;
                }
              }});
  return known;
}

}  // namespace lockstep::record
