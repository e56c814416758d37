// A described struct on its way between a client and a worker: its fields as JSON, and its tensors.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/safetensors.h"

namespace lockstep::pool {

/// The content of a packet. Tensors are on the CPU and belong to no graph. They are in memory, or the bytes
/// of a safetensors file.
struct Packet {
  Json fields = Json::object();
  nn::NamedTensors tensors{};
  std::shared_ptr<const std::string> bytes{};  ///< if set, the tensors are in it
};

/// The tensors as the bytes of a safetensors file; nothing if there are none. Throws for a type that the
/// format does not have.
std::shared_ptr<const std::string> tensor_bytes(const nn::NamedTensors& tensors);

/// The packet's tensors, read from its bytes if it has any. Throws corrupt_data.
nn::NamedTensors open_tensors(const Packet& packet);

namespace packet_detail {

at::Tensor travelling(const at::Tensor& tensor);
const at::Tensor& find_tensor(const nn::NamedTensors& tensors, const std::string& name);
const Json& find_field(const Json& fields, const std::string& name);
void check_names(const Json& fields, const std::vector<std::string>& known);
double number_in(const std::string& name, const Json& json);
Json number_json(double value);

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <Described T>
void write_struct(const T& value, const std::string& prefix, Json& fields, nn::NamedTensors& tensors);
template <Described T>
void read_struct(const Json& fields, const std::string& prefix, const nn::NamedTensors& tensors, T& value);

template <class T>
constexpr bool kIsField = std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                          std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
                          std::is_same_v<T, at::Tensor> || IsVector<T>::value || Described<T> || requires {
  enum_names(T{});
};

/// Says once for each type, not in each function, that no field of a task's struct has it.
template <class T>
struct CheckedField {
  static_assert(
      kIsField<T>,
      "a field of a task's input or result is bool, int64_t, double, std::string, at::Tensor, an enum "
      "with enum_names, a struct with `describe`, or a std::vector of these: use int64_t in place of "
      "int, double in place of float, and std::string in place of a path");
  static constexpr bool is_field = kIsField<T>;
};

template <class T>
Json write_value(const T& value, const std::string& name, nn::NamedTensors& tensors) {
  if constexpr (!CheckedField<T>::is_field) {
    return {};
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    if (value.defined()) tensors.emplace_back(name, travelling(value));
    return value.defined();
  } else if constexpr (Described<T>) {
    Json json = Json::object();
    write_struct(value, name + ".", json, tensors);
    return json;
  } else if constexpr (IsVector<T>::value) {
    Json list = Json::array();
    for (size_t i = 0; i < value.size(); ++i)
      list.push_back(write_value<typename T::value_type>(value[i], name + "." + std::to_string(i), tensors));
    return list;
  } else if constexpr (std::is_enum_v<T>) {
    return describe_detail::as_text(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return number_json(value);
  } else {
    return value;
  }
}

template <class T>
void read_value([[maybe_unused]] const Json& json, [[maybe_unused]] const std::string& name,
                [[maybe_unused]] const nn::NamedTensors& tensors, T& value) {
  if constexpr (!CheckedField<T>::is_field) {
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    value = json == true ? find_tensor(tensors, name) : at::Tensor();
  } else if constexpr (Described<T>) {
    read_struct(json, name + ".", tensors, value);
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array())
      throw Error(ErrorCode::corrupt_data, "the field \"" + name + "\" that came is no list");
    value.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      typename T::value_type item{};
      read_value(json[i], name + "." + std::to_string(i), tensors, item);
      value.push_back(std::move(item));
    }
  } else if constexpr (std::is_same_v<T, double>) {
    value = number_in(name, json);
  } else {
    describe_detail::from_json(name, json, {}, value);
  }
}

/// Prepares the tensors in the value for sending: a tensor, those of a described struct, and of a vector,
/// optional or pair of these. Does not change anything else.
template <class T>
void make_travelling([[maybe_unused]] T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    if (value.defined()) value = travelling(value);
  } else if constexpr (Described<T>) {
    T::describe(value, describe_detail::FieldVisitor{
                           [](const char*, auto& item, const char*, FieldTraits) { make_travelling(item); }});
  } else if constexpr (IsVector<T>::value) {
    if constexpr (!std::is_arithmetic_v<typename T::value_type>) {
      for (auto& item : value) make_travelling(item);
    }
  } else if constexpr (requires {
                         value.first;
                         value.second;
                       }) {
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype((value.first))>>)
      make_travelling(value.first);
    make_travelling(value.second);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) make_travelling(*value);
  }
}

template <Described T>
void write_struct(const T& value, const std::string& prefix, Json& fields, nn::NamedTensors& tensors) {
  T::describe(
      value,
      describe_detail::FieldVisitor{[&](const char* field, const auto& item, const char*, FieldTraits) {
        fields[field] = write_value<std::remove_cvref_t<decltype(item)>>(item, prefix + field, tensors);
      }});
}

template <Described T>
void read_struct(const Json& fields, const std::string& prefix, const nn::NamedTensors& tensors, T& value) {
  std::vector<std::string> known;
  T::describe(value,
              describe_detail::FieldVisitor{[&](const char* field, auto& item, const char*, FieldTraits) {
                known.emplace_back(field);
                read_value(find_field(fields, field), prefix + field, tensors, item);
              }});
  check_names(fields, known);
}

[[noreturn]] void not_all_described(size_t described, size_t members);

}  // namespace packet_detail

/// Throws internal unless every member of the struct has its line in `describe`. (For a struct that holds
/// tensors this cannot be checked at compile time.)
template <Described T>
void check_travels() {
  size_t count = 0;
  T value{};
  T::describe(value, describe_detail::FieldVisitor{[&](auto&&...) { ++count; }});
  if (count != describe_detail::arity<T>())
    packet_detail::not_all_described(count, describe_detail::arity<T>());
}

/// Packs a struct for sending.
template <Described T>
Packet pack(const T& value) {
  Packet packet;
  packet_detail::write_struct(value, "", packet.fields, packet.tensors);
  return packet;
}

/// The struct that was packed. Throws corrupt_data if the packet is of another struct.
template <Described T>
T unpack(const Packet& packet) {
  T value{};
  packet_detail::read_struct(packet.fields, "", open_tensors(packet), value);
  return value;
}

/// The input or result of a task that has none.
struct Nothing {
  static constexpr auto describe = [](auto&, auto&&) {};
};

}  // namespace lockstep::pool
