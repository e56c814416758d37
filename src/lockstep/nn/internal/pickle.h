// A pickle of a state dict, read without running it: of pickle's machine only what builds containers of
// tensors, and of Python's names only those that torch.save writes for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::nn {

/// The bytes are no such pickle. The message goes on from "... is not a good PyTorch file: ".
struct PickleError {
  std::string message;
};

/// A value of the pickle. Values refer to one another by their numbers, so that nothing a file does makes
/// them nest or own each other in a circle.
struct PickleValue {
  enum class Kind {
    none,
    boolean,  ///< integer
    integer,
    number,  ///< text has nothing; the value is not kept, for no tensor needs it
    text,
    global,   ///< text: "torch.FloatStorage"
    tuple,    ///< items
    list,     ///< items
    dict,     ///< items: key, value, key, value ...
    storage,  ///< items: type (a global), key of its bytes (a text); integer: elements
    tensor,   ///< items: storage, offset, sizes, strides
  };
  Kind kind = Kind::none;
  int64_t integer = 0;
  std::string text = {};
  std::vector<uint32_t> items = {};
};

struct Pickle {
  std::vector<PickleValue> values;
  uint32_t top = 0;  ///< the number of the value that the pickle is of

  const PickleValue& at(uint32_t number) const { return values[number]; }
};

inline constexpr int64_t kMostPickleBytes = int64_t{16}
                                            << 20;  // a state dict of 10,000 tensors has about 1 MB
inline constexpr size_t kMostKeyBytes = 1024;       // of a storage or an entry of a state dict

/// Protocols 2 to 5. Throws PickleError for whatever else, naming a global that is refused.
/// Memory is bounded by the bytes and the number of values, a million at most, and of the places that these
/// are put into, four million: nothing that is taken again is copied.
Pickle read_pickle(std::string_view bytes);

}  // namespace lockstep::nn
