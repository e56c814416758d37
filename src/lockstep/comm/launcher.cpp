#include "lockstep/comm/launcher.h"

#include <charconv>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using Variable = std::function<const char*(const char*)>;

constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostPort = 65535;

std::string text_of(const Variable& variable, const char* name) {
  const char* text = variable(name);
  return text == nullptr ? "" : text;
}

[[noreturn]] void refuse(const char* name, const std::string& text, const std::string& why) {
  throw Error(ErrorCode::invalid_option, std::string("the environment variable ") + name + (text.empty() ? " is missing: " : " cannot be \"" + text + "\": ") + why,
              "start it with lockstep run or torchrun, or unset RANK and WORLD_SIZE to train without a launcher");
}

int64_t number_of(const Variable& variable, const char* name, int64_t least, int64_t most) {
  const std::string text = text_of(variable, name);
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec == std::errc() && end.ptr == text.data() + text.size() && !text.empty() && value >= least && value <= most) return value;
  refuse(name, text, "it must be a number from " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

std::optional<Launch> read_launch(const Variable& variable) {
  if (variable("RANK") == nullptr && variable("WORLD_SIZE") == nullptr) return std::nullopt;
  Launch launch;
  launch.size = number_of(variable, "WORLD_SIZE", 1, kMostRanks);
  launch.rank = number_of(variable, "RANK", 0, launch.size - 1);
  launch.local_size = variable("LOCAL_WORLD_SIZE") == nullptr ? 1 : number_of(variable, "LOCAL_WORLD_SIZE", 1, launch.size);
  launch.local_rank = variable("LOCAL_RANK") == nullptr ? 0 : number_of(variable, "LOCAL_RANK", 0, launch.local_size - 1);
  launch.address = text_of(variable, "MASTER_ADDR");
  if (launch.address.empty()) refuse("MASTER_ADDR", "", "the ranks meet there");
  launch.port = static_cast<uint16_t>(number_of(variable, "MASTER_PORT", 1, kMostPort));
  launch.agent_store = text_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.attempt = variable("TORCHELASTIC_RESTART_COUNT") == nullptr ? 0 : number_of(variable, "TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<int32_t>::max());
  launch.interface = text_of(variable, "GLOO_SOCKET_IFNAME");
  return launch;
}

}  // namespace lockstep::comm
