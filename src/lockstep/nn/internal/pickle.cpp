#include "lockstep/nn/internal/pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMostValues = 1'000'000;     // a tensor takes about 20
constexpr size_t kMostStackings = 4'000'000;  // of values, memo lookups and marks: a tensor takes about 30
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kOldTensor = "torch._utils._rebuild_tensor";            // before PyTorch 0.4
constexpr std::string_view kTensorOfNewTypes = "torch._utils._rebuild_tensor_v3";  // those without a storage
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::array<std::string_view, 10> kStorages{
    "torch.DoubleStorage", "torch.FloatStorage", "torch.HalfStorage",  "torch.BFloat16Storage",
    "torch.LongStorage",   "torch.IntStorage",   "torch.ShortStorage", "torch.CharStorage",
    "torch.ByteStorage",   "torch.BoolStorage"};

bool is_storage(std::string_view name) {
  return std::find(kStorages.begin(), kStorages.end(), name) != kStorages.end();
}

[[noreturn]] void refuse_pickle(std::string message) { throw PickleError{std::move(message)}; }

[[noreturn]] void refuse_bad(const char* what) {
  std::string message = "its pickle has a bad ";
  message += what;
  refuse_pickle(std::move(message));
}

// The bytes that are not read yet.
class PickleBytes {
 public:
  explicit PickleBytes(std::string_view bytes) : rest_(bytes) {}

  std::string_view rest() const { return rest_; }

  std::string_view take(uint64_t count) {
    if (count > rest_.size()) refuse_pickle("its pickle is incomplete");
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }

  // Little-endian, like every processor that this program supports.
  template <class Number>
  Number number() {
    Number value = 0;
    std::memcpy(&value, take(sizeof(Number)).data(), sizeof(Number));
    return value;
  }

  std::string line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse_pickle("its pickle is incomplete");
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

 private:
  std::string_view rest_;
};

// The values, the stack, the marks on the stack, and the memo of the pickle's machine.
class PickleMemory {
 public:
  // Call it when the pickle has ended.
  Pickle result() {
    if (stack_.size() != 1)
      refuse_pickle("its pickle leaves " + std::to_string(stack_.size()) + " values instead of one");
    pickle_.top = stack_.front();
    return std::move(pickle_);
  }

  const PickleValue& at(uint32_t number) const { return pickle_.values[number]; }

  void stack(uint32_t number) {
    count_stacking();
    stack_.push_back(number);
  }

  void push(PickleValue value) {
    if (pickle_.values.size() == kMostValues)
      refuse_pickle("its pickle has more than " + std::to_string(kMostValues) + " values");
    stack(static_cast<uint32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = std::string(text)}); }
  void push_integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }

  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
      refuse_pickle("its pickle uses a value that does not exist");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  void mark() {
    count_stacking();
    marks_.push_back(stack_.size());
  }

  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) refuse_pickle("its pickle ends a group of values that did not begin");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  PickleValue& top_of(Kind kind, const char* what) {
    const uint32_t top = pop();
    stack_.push_back(top);
    if (pickle_.values[top].kind != kind)
      refuse_pickle(std::string("its pickle fills something that is not a ") + what);
    return pickle_.values[top];
  }

  void append(Kind kind, const char* what, const std::vector<uint32_t>& values) {
    std::vector<uint32_t>& items = top_of(kind, what).items;
    if (kind == Kind::dict && values.size() % 2 != 0) refuse_pickle("its pickle has a key without a value");
    items.insert(items.end(), values.begin(), values.end());
  }

  void tuple_of(size_t count) {
    PickleValue tuple{.kind = Kind::tuple, .items = std::vector<uint32_t>(count)};
    for (size_t i = count; i-- > 0;) tuple.items[i] = pop();
    push(std::move(tuple));
  }

  void append_popped(size_t count, Kind kind, const char* what) {
    std::vector<uint32_t> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    append(kind, what, values);
  }

  void append_group(Kind kind, const char* what) {
    const std::vector<uint32_t> values = pop_to_mark();
    append(kind, what, values);
  }

  size_t memo_size() const { return memo_.size(); }

  void remember(uint64_t place) {
    if (stack_.empty()) refuse_pickle("its pickle stores a value that does not exist");
    memo_[place] = stack_.back();
    if (memo_.size() > pickle_.values.size()) refuse_pickle("its pickle stores more values than it has");
  }

  void recall(uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse_pickle("its pickle reads a value that it has not stored");
    stack(found->second);
  }

 private:
  // A small file can read a memo entry any number of times, and each read takes a place on the stack.
  void count_stacking() {
    if (++stackings_ > kMostStackings)
      refuse_pickle("its pickle has more than " + std::to_string(kMostStackings) + " places for values");
  }

  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  size_t stackings_ = 0;
};

// Executes the operations of a pickle.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    while (true) {
      const auto code = static_cast<unsigned char>(bytes_.take(1).front());
      if (code == '.') break;
      step(code);
    }
    return memory_.result();
  }

  std::string_view rest() const { return bytes_.rest(); }

 private:
  void global(const std::string& module, const std::string& name) {
    const std::string whole = module + "." + name;
    if (whole != kOrderedDict && whole != kTensor && whole != kOldTensor && whole != kParameter &&
        !is_storage(whole)) {
      if (whole == kTensorOfNewTypes)
        throw PickleError{"it has numbers of a type such as float8 or uint16", /*is_of_numbers=*/true};
      if (whole.starts_with("torch.") && whole.ends_with("Storage"))
        throw PickleError{"it has a " + in_quotes(whole), /*is_of_numbers=*/true};
      refuse_pickle("it names " + in_quotes(whole) + ", which a state dict does not need; it was not run");
    }
    memory_.push({.kind = Kind::global, .text = whole});
  }

  const PickleValue& item(const PickleValue& tuple, size_t index, Kind kind, const char* what) const {
    if (tuple.kind != Kind::tuple || index >= tuple.items.size() ||
        memory_.at(tuple.items[index]).kind != kind)
      refuse_bad(what);
    return memory_.at(tuple.items[index]);
  }

  // ('storage', torch.FloatStorage, key, device, elements)
  void persistent() {
    const PickleValue& id = memory_.at(memory_.pop());
    const std::string& type = item(id, 1, Kind::global, "storage").text;
    if (item(id, 0, Kind::text, "storage").text != "storage" || !is_storage(type))
      refuse_pickle("its pickle has a bad storage");
    if (const size_t bytes = item(id, 2, Kind::text, "storage").text.size(); bytes > kMostKeyBytes)
      refuse_pickle("its pickle has a storage with a key of " + std::to_string(bytes) + " bytes");
    memory_.push({.kind = Kind::storage,
                  .integer = item(id, 4, Kind::integer, "storage").integer,
                  .items = {id.items[1], id.items[2]}});
  }

  // A call of a function that global() accepted. Only values in the memo are copied: otherwise a long tuple
  // that is called often would take forever.
  void reduce() {
    const uint32_t given = memory_.pop();
    const PickleValue& arguments = memory_.at(given);
    const PickleValue& called = memory_.at(memory_.pop());
    if (called.kind != Kind::global || arguments.kind != Kind::tuple)
      refuse_pickle("its pickle calls something that is not a function");
    if (called.text == kOrderedDict) {
      if (!arguments.items.empty()) refuse_pickle("its pickle has a bad OrderedDict");
      memory_.push({.kind = Kind::dict});
    } else if (called.text == kParameter) {
      item(arguments, 0, Kind::tensor, "parameter");
      memory_.stack(arguments.items[0]);
    } else if (called.text == kTensor || called.text == kOldTensor) {
      item(arguments, 0, Kind::storage, "tensor");
      item(arguments, 1, Kind::integer, "tensor");
      item(arguments, 2, Kind::tuple, "tensor");
      item(arguments, 3, Kind::tuple, "tensor");
      memory_.push({.kind = Kind::tensor, .items = {arguments.items.begin(), arguments.items.begin() + 4}});
    } else {
      refuse_pickle("its pickle calls " + in_quotes(called.text));
    }
  }

  void long_integer() {
    const auto count = bytes_.number<uint8_t>();
    if (count > 8) refuse_pickle("its pickle has an integer of " + std::to_string(count) + " bytes");
    const std::string_view bytes = bytes_.take(count);
    uint64_t value = count > 0 && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), count);
    memory_.push_integer(static_cast<int64_t>(value));
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        if (const auto protocol = bytes_.number<uint8_t>(); protocol < 2 || protocol > 5)
          refuse_pickle("its pickle has the protocol " + std::to_string(protocol));
        return;
      case 0x95:
        bytes_.take(8);
        return;  // FRAME
      case '(':
        return memory_.mark();
      case '0':
        memory_.pop();
        return;
      case 'N':
        return memory_.push({});
      case 0x88:
      case 0x89:
        return memory_.push({.kind = Kind::boolean, .integer = code == 0x88});
      case 'J':
        return memory_.push_integer(bytes_.number<int32_t>());
      case 'K':
        return memory_.push_integer(bytes_.number<uint8_t>());
      case 'M':
        return memory_.push_integer(bytes_.number<uint16_t>());
      case 0x8a:
        return long_integer();
      case 'G':
        bytes_.take(8);
        return memory_.push({.kind = Kind::number});
      case 'X':
        return memory_.push_text(bytes_.take(bytes_.number<uint32_t>()));
      case 0x8c:
        return memory_.push_text(bytes_.take(bytes_.number<uint8_t>()));
      case 0x8d:
        return memory_.push_text(bytes_.take(bytes_.number<uint64_t>()));
      case '}':
        return memory_.push({.kind = Kind::dict});
      case ']':
        return memory_.push({.kind = Kind::list});
      case ')':
        return memory_.push({.kind = Kind::tuple});
      case 't':
        return memory_.push({.kind = Kind::tuple, .items = memory_.pop_to_mark()});
      case 0x85:
        return memory_.tuple_of(1);
      case 0x86:
        return memory_.tuple_of(2);
      case 0x87:
        return memory_.tuple_of(3);
      case 'a':
        return memory_.append_popped(1, Kind::list, "list");
      case 'e':
        return memory_.append_group(Kind::list, "list");
      case 's':
        return memory_.append_popped(2, Kind::dict, "dict");
      case 'u':
        return memory_.append_group(Kind::dict, "dict");
      case 'q':
        return memory_.remember(bytes_.number<uint8_t>());
      case 'r':
        return memory_.remember(bytes_.number<uint32_t>());
      case 0x94:
        return memory_.remember(memory_.memo_size());  // MEMOIZE
      case 'h':
        return memory_.recall(bytes_.number<uint8_t>());
      case 'j':
        return memory_.recall(bytes_.number<uint32_t>());
      case 'c': {
        const std::string module = bytes_.line();
        return global(module, bytes_.line());
      }
      case 0x93:
        return stack_global();
      case 'Q':
        return persistent();
      case 'R':
        return reduce();
      case 'b':
        return build();
      default:
        refuse_pickle("its pickle has the operation " + std::to_string(code) +
                      ", which a state dict does not need");
    }
  }

  void stack_global() {
    const std::string name = memory_.at(memory_.pop()).text;
    const std::string module = memory_.at(memory_.pop()).text;
    global(module, name);
  }

  // The attributes of a state dict (_metadata) do not concern its tensors.
  void build() {
    memory_.pop();
    memory_.top_of(Kind::dict, "dict");
  }

  PickleBytes bytes_;
  PickleMemory memory_;
};

}  // namespace

Pickle take_pickle(std::string_view& bytes) {
  PickleMachine machine(bytes);
  Pickle pickle = machine.run();
  bytes = machine.rest();
  return pickle;
}

Pickle read_pickle(std::string_view bytes) {
  Pickle pickle = take_pickle(bytes);
  if (!bytes.empty()) refuse_pickle("bytes follow the end of its pickle");
  return pickle;
}

}  // namespace lockstep::nn
