#include "lockstep/cloud/request.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/s3_location.h"

namespace lockstep::cloud {
namespace {

constexpr size_t kMostName = 60;
constexpr size_t kMostKeyName = 255;
constexpr size_t kMostTagKey = 128;
constexpr size_t kMostTagValue = 256;
constexpr size_t kMostTags = 40;  // AWS allows 50, and ParallelCluster adds its own
constexpr int64_t kMostSeconds = 7 * 24 * 3600;
constexpr size_t kShortId = 8;
constexpr size_t kLongId = 17;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter_or_digit(char c) { return is_digit(c) || is_small(c) || (c >= 'A' && c <= 'Z'); }

bool only(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter_or_digit(c) || besides.find(c) != std::string_view::npos;
  });
}

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& field,
                         const std::string& hint) {
  throw Error(ErrorCode::invalid_option,
              "option --" + option + " cannot be " + quote(value) + " (" + field + " of ParallelCluster)",
              hint);
}

// "subnet-" and 8 or 17 small letters or digits, as all names of this kind are.
void check_id(const std::string& option, const std::string& value, const std::string& prefix,
              const std::string& field) {
  if (value.empty()) return;
  const std::string rest = value.starts_with(prefix) ? value.substr(prefix.size()) : "";
  const bool length = rest.size() == kShortId || rest.size() == kLongId;
  if (!length || !std::all_of(rest.begin(), rest.end(), [](char c) { return is_digit(c) || is_small(c); }))
    refuse(option, value, field, "it is " + prefix + " and 8 or 17 letters or digits");
}

void check_arn(const std::string& option, const std::string& value, const std::string& field) {
  if (value.empty()) return;
  if (!value.starts_with("arn:") || value.find(":policy/") == std::string::npos || !only(value, ":/_+=,.@-"))
    refuse(option, value, field, "it has the form arn:aws:iam::ACCOUNT:policy/NAME");
}

bool is_address_block(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  const std::vector<std::string> parts = split(text.substr(0, slash), '.');
  const auto bits = parse_number<int>(text.substr(slash + 1));
  if (parts.size() != 4 || !bits || *bits < 0 || *bits > 32) return false;
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    const auto number = parse_number<int>(part);
    return number && *number >= 0 && *number <= 255;
  });
}

bool is_prefix_list(const std::string& text) {
  const std::string rest = text.starts_with("pl-") ? text.substr(3) : "";
  return (rest.size() == kShortId || rest.size() == kLongId) &&
         std::all_of(rest.begin(), rest.end(), [](char c) { return is_digit(c) || is_small(c); });
}

void check_region(const std::string& region) {
  const std::vector<std::string> parts = split(region, '-');
  const bool form = parts.size() >= 3 && parts.size() <= 4 && parts.back().size() == 1 &&
                    is_digit(parts.back().front()) &&
                    std::all_of(parts.begin(), parts.end() - 1, [](const std::string& part) {
                      return !part.empty() && std::all_of(part.begin(), part.end(), is_small);
                    });
  if (!form) refuse("region", region, "Region", "regions are named like us-east-1");
}

void check_type(const std::string& option, const std::string& type) {
  const std::vector<std::string> parts = split(type, '.');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty() || !is_small(parts[0].front()) ||
      !only(type, ".-"))
    refuse(option, type, "InstanceType",
           "types are named like p4d.24xlarge; lockstep cloud prices lists them");
}

}  // namespace

int64_t parse_seconds(const std::string& text, const std::string& option) {
  constexpr std::string_view kUnits = "smhd";
  constexpr std::array<int64_t, 4> kFactors{1, 60, 3600, 86'400};
  const size_t unit = text.empty() ? std::string::npos : kUnits.find(text.back());
  const std::string digits = unit == std::string::npos ? text : text.substr(0, text.size() - 1);
  const auto number = parse_number<int64_t>(digits);
  const int64_t factor = unit == std::string::npos ? 1 : kFactors[unit];
  if (!number || *number < 0 || *number > kMostSeconds / factor)
    refuse(option, text, "ScaledownIdletime", "it is a time such as 90s, 30m or 2h, at most 7d; 0: never");
  return *number * factor;
}

void check_cluster_name(const std::string& name) {
  const bool form = !name.empty() && name.size() <= kMostName && !is_digit(name.front()) &&
                    name.front() != '-' && only(name, "-");
  if (!form)
    throw Error(ErrorCode::invalid_option, "a cluster cannot be named " + quote(name),
                "a ClusterName has a letter first, then letters, digits and hyphens, at most 60 in all");
}

std::vector<std::pair<std::string, std::string>> tags_of(const ClusterRequest& request) {
  std::vector<std::pair<std::string, std::string>> tags;
  std::set<std::string> keys;
  for (const std::string& tag : request.tags) {
    const size_t equal = tag.find('=');
    if (equal == std::string::npos) refuse("tags", tag, "Tags", "a tag has the form KEY=VALUE");
    const std::string key = tag.substr(0, equal), value = tag.substr(equal + 1);
    if (key.empty() || key.size() > kMostTagKey || !only(key, "+-=._:@/") || key.starts_with("aws:") ||
        key.starts_with("parallelcluster:") || key.starts_with("lockstep"))
      refuse("tags", tag, "Tags: Key",
             "a key has 1 to 128 letters, digits or + - = . _ : @ /, and none of the prefixes aws:, "
             "parallelcluster: and lockstep");
    if (value.size() > kMostTagValue || !only(value, "+-=._:@/"))
      refuse("tags", tag, "Tags: Value", "a value has at most 256 letters, digits or + - = . _ : @ /");
    if (!keys.insert(key).second) refuse("tags", tag, "Tags: Key", "a key may appear once");
    tags.emplace_back(key, value);
  }
  if (tags.size() > kMostTags)
    refuse("tags", std::to_string(tags.size()) + " tags", "Tags", "there may be at most 40");
  return tags;
}

void check_request(const ClusterRequest& request) {
  check_values(request);
  check_region(request.region);
  if (!request.type.empty()) check_type("type", request.type);
  check_type("head-type", request.head_type);
  parse_seconds(request.idle, "idle");
  if (request.spot_price > 0 && !request.spot)
    refuse("spot-price", shortest(request.spot_price), "SpotPrice", "add --spot");
  if (request.spot && !request.reservation.empty())
    refuse("reservation", request.reservation, "CapacityType",
           "a reservation is for machines on demand: leave out --spot");
  if (!request.data.empty()) parse_s3_location(request.data, "--data");
  if (request.fsx_gb != 0 && request.fsx_gb != 1200 && request.fsx_gb % 2400 != 0)
    refuse("fsx-gb", std::to_string(request.fsx_gb), "StorageCapacity", "it is 1200 or a multiple of 2400");
  check_id("image", request.image, "ami-", "CustomAmi");
  check_id("subnet", request.subnet, "subnet-", "SubnetId");
  check_id("workers-subnet", request.workers_subnet, "subnet-", "SubnetIds");
  check_id("security-group", request.security_group, "sg-", "AdditionalSecurityGroups");
  check_id("reservation", request.reservation, "cr-", "CapacityReservationId");
  if (!is_address_block(request.ssh_from) && !is_prefix_list(request.ssh_from))
    refuse("ssh-from", request.ssh_from, "AllowedIps",
           "it is a CIDR block such as 203.0.113.0/24, or pl-...");
  if (request.key.size() > kMostKeyName || !only(request.key, " _-.@+=:/()"))
    refuse("key", request.key, "KeyName", "lockstep needs the name of an EC2 key pair, not a file");
  check_arn("policy", request.policy, "Policy");
  check_arn("boundary", request.boundary, "PermissionsBoundary");
  tags_of(request);
}

PlanRequest plan_request_of(const ClusterRequest& request) {
  return {.gpus = request.workers,
          .hours = 0,
          .forecast = {},
          .type = request.type,
          .region = request.region,
          .spot = request.spot,
          .data = request.data,
          .head_type = request.head_type,
          .disk_gb = request.disk_gb,
          .fsx_gb = request.fsx_gb,
          .root_gb = request.root_gb,
          .prices = request.prices};
}

}  // namespace lockstep::cloud
