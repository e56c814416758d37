#include "lockstep/comm/internal/group_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "lockstep/device/kernels.h"

namespace lockstep::comm {
namespace {

constexpr int64_t kBlock = 2048;

template <class T>
constexpr bool is_small_float = std::is_same_v<T, at::Half> || std::is_same_v<T, at::BFloat16>;

// The type in which values of a type are added.
template <class T>
using Sum = std::conditional_t<is_small_float<T>, float, T>;

// A NaN on any rank stays NaN.
template <class T>
T larger(T left, T right) {
  if constexpr (std::is_floating_point_v<T>) {
    if (left != left) return left;
    if (right != right) return right;
  }
  return std::max(left, right);
}

// `count` values in the type in which they are added: not copied, or in `scratch` if the type differs.
template <class T>
const Sum<T>* widened(const std::byte* from, int64_t begin, int64_t count, Sum<T>* scratch) {
  const T* values = reinterpret_cast<const T*>(from) + begin;
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return values;
  } else {
    std::copy_n(values, count, scratch);
    return scratch;
  }
}

template <class T>
void combine(Reduction reduction, const Sum<T>* left, const Sum<T>* right, Sum<T>* result, int64_t count) {
  if (reduction == Reduction::max) {
    for (int64_t i = 0; i < count; ++i) result[i] = larger(left[i], right[i]);
  } else if constexpr (std::is_same_v<Sum<T>, float> || std::is_same_v<Sum<T>, double>) {
    device::kernels<Sum<T>>().add(result, left, right, count);
  } else {
    for (int64_t i = 0; i < count; ++i) result[i] = static_cast<T>(left[i] + right[i]);
  }
}

// Block by block, and written to `result` only at the end of the block, because `result` may be one of the
// inputs.
template <class T>
void reduce(Reduction reduction, const std::vector<const std::byte*>& inputs, std::byte* result,
            int64_t count) {
  std::array<Sum<T>, kBlock> sum;
  std::array<Sum<T>, kBlock> scratch;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    const Sum<T>* left = widened<T>(inputs.front(), begin, size, sum.data());
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      combine<T>(reduction, left, widened<T>(inputs[rank], begin, size, scratch.data()), sum.data(), size);
      left = sum.data();
    }
    if constexpr (std::is_floating_point_v<Sum<T>>) {
      const auto ranks = static_cast<Sum<T>>(inputs.size());
      if (reduction == Reduction::mean) {
        std::transform(left, left + size, sum.data(), [&](Sum<T> value) { return value / ranks; });
        left = sum.data();
      }
    }
    std::copy_n(left, size, reinterpret_cast<T*>(result) + begin);
  }
}

[[noreturn]] void refuse(at::ScalarType type, const char* what) {
  throw Error(
      ErrorCode::invalid_option,
      std::string("all_reduce cannot make the ") + what + " of tensors of type " + c10::toString(type),
      "turn them to float or double first");
}

const char* word_of(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::mean ? "mean" : "largest value";
}

}  // namespace

void check_reducible(at::ScalarType type, Reduction reduction) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      return;
    case at::kLong:
    case at::kInt:
    case at::kShort:
    case at::kChar:
    case at::kByte:
      if (reduction == Reduction::mean) refuse(type, "mean");
      return;
    case at::kBool:
      if (reduction != Reduction::max) refuse(type, word_of(reduction));
      return;
    default:
      refuse(type, word_of(reduction));
  }
}

void reduce_elements(at::ScalarType type, Reduction reduction, const std::vector<const std::byte*>& inputs,
                     std::byte* result, int64_t count) {
  switch (type) {
    case at::kFloat:
      return reduce<float>(reduction, inputs, result, count);
    case at::kDouble:
      return reduce<double>(reduction, inputs, result, count);
    case at::kHalf:
      return reduce<at::Half>(reduction, inputs, result, count);
    case at::kBFloat16:
      return reduce<at::BFloat16>(reduction, inputs, result, count);
    case at::kLong:
      return reduce<int64_t>(reduction, inputs, result, count);
    case at::kInt:
      return reduce<int32_t>(reduction, inputs, result, count);
    case at::kShort:
      return reduce<int16_t>(reduction, inputs, result, count);
    case at::kChar:
      return reduce<int8_t>(reduction, inputs, result, count);
    default:
      return reduce<uint8_t>(reduction, inputs, result, count);  // kByte and kBool, see check_reducible
  }
}

}  // namespace lockstep::comm
