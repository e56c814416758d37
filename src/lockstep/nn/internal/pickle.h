// Reads the pickle of a state dict without running it. Only the operations that build containers of tensors
// are supported, and only the Python names that torch.save writes for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::nn {

/// The bytes are not such a pickle. The message continues "... is not a valid PyTorch file: ".
struct PickleError {
  std::string message;
  bool is_of_numbers = false;  ///< the pickle is one, and `message` says which numbers are not supported
};

/// A value of the pickle. Values refer to each other by index, so a file cannot make them nest deeply or own
/// each other in a cycle.
struct PickleValue {
  enum class Kind {
    none,
    boolean,  ///< integer
    integer,
    number,  ///< text is empty; the value is not stored, because tensors do not need it
    text,
    global,   ///< text: "torch.FloatStorage"
    tuple,    ///< items
    list,     ///< items
    dict,     ///< items: key, value, key, value ...
    storage,  ///< items: type (a global), key of its bytes (a text); integer: number of elements
    tensor,   ///< items: storage, offset, sizes, strides
  };
  Kind kind = Kind::none;
  int64_t integer = 0;
  std::string text = {};
  std::vector<uint32_t> items = {};
};

struct Pickle {
  std::vector<PickleValue> values;
  uint32_t top = 0;  ///< index of the value that the pickle contains

  const PickleValue& at(uint32_t number) const { return values[number]; }
};

inline constexpr int64_t kMostPickleBytes = int64_t{16}
                                            << 20;  // a state dict of 10,000 tensors has about 1 MB
inline constexpr size_t kMostKeyBytes = 1024;       // in the key of a storage or a state dict

/// Protocols 2 to 5. Throws PickleError for anything else, naming a global that is refused. Memory is bounded
/// by the number of bytes, of values (at most a million), and of places for values (at most four million); a
/// value that is used again is not copied.
Pickle read_pickle(std::string_view bytes);

/// The pickle that the bytes begin with, which is taken off them; more may follow.
Pickle take_pickle(std::string_view& bytes);

}  // namespace lockstep::nn
