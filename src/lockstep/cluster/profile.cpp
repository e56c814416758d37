#include "lockstep/cluster/profile.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_reason.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cluster/scheduler.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostProfileBytes = 1 << 20;
constexpr const char* kLocal = "local";

bool is_word_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_';
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
         std::all_of(name.begin(), name.end(), is_word_letter);
}

void check_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
                    std::all_of(name.begin(), name.end(), [](char letter) {
                      return is_word_letter(letter) || letter == '-' || letter == '.';
                    });
  if (!good)
    throw Error(ErrorCode::invalid_option, "a profile cannot have the name " + quote(printable(name)),
                "use letters, digits, '-', '_' and '.'");
}

[[noreturn]] void refuse(const std::string& key, const std::string& value, const std::string& why,
                         const std::string& hint) {
  throw Error(ErrorCode::invalid_option,
              "\"" + key + "\" of a profile cannot be " + quote(printable(value)) + ": " + why, hint);
}

// A word that stands for itself on a command line and in a script.
void check_plain(const std::string& key, const std::string& value) {
  const bool good = !value.starts_with("-") && std::all_of(value.begin(), value.end(), [](char letter) {
    return is_word_letter(letter) || std::string_view(".,:+-@/%[]=*~").find(letter) != std::string_view::npos;
  });
  if (!good)
    refuse(key, value, "it has a character that no such name has", "remove blanks, quotes and signs");
}

// As sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
bool is_time(const std::string& time) {
  const std::string low = lower(time);
  if (time.empty() || low == "unlimited" || low == "infinite") return true;
  constexpr size_t kMostDigits = 8;
  const size_t dash = time.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<std::string> parts = split(has_days ? time.substr(dash + 1) : time, ':');
  if (parts.size() > 3) return false;
  for (size_t i = has_days ? 0 : 1; i < parts.size(); ++i) {
    const int64_t most = has_days && i == 0 ? 23 : 59;
    if (parse_number<int64_t>(parts[i]).value_or(most + 1) > most) return false;
  }
  if (has_days) parts.push_back(time.substr(0, dash));
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part.size() <= kMostDigits &&
           part.find_first_not_of("0123456789") == std::string::npos;
  });
}

// A number of megabytes, or with a unit; the queue of this machine takes fractions too.
bool is_memory(const Profile& profile) {
  std::string text = lower(profile.memory);
  if (text.empty() || (profile.scheduler == kLocal && parse_bytes(text))) return true;
  if (text.back() == 'b') text.pop_back();
  if (!text.empty() && std::string_view("kmgt").find(text.back()) != std::string_view::npos) text.pop_back();
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// "ssh-ed25519 AAAA...", which is put into an option of ssh.
void check_host_key(const std::string& key) {
  const auto has_only = [](std::string_view text, std::string_view signs) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char letter) {
      return is_word_letter(letter) || signs.find(letter) != std::string_view::npos;
    });
  };
  const size_t blank = std::min(key.find(' '), key.size());
  if (key.empty() || (has_only(std::string_view(key).substr(0, blank), "-@.") && blank < key.size() &&
                      has_only(std::string_view(key).substr(blank + 1), "+/=")))
    return;
  refuse("host-key", key, "it is not the kind of a key and the key",
         "write it as in known_hosts, without the host: ssh-ed25519 AAAA...");
}

bool has_end_of_line(const std::string& text) {
  return text.find_first_of(std::string("\n\r\0", 3)) != std::string::npos;
}

void check_environment(const Profile& profile) {
  for (const std::string& entry : profile.environment) {
    const size_t sign = entry.find('=');
    if (sign == std::string::npos || !is_variable_name(std::string_view(entry).substr(0, sign)))
      refuse("environment", entry, "it is not NAME=VALUE", "write it like OMP_NUM_THREADS=1");
    if (has_end_of_line(entry))
      refuse("environment", entry, "it has an end of line", "use a value of one line");
  }
  for (const std::string& name : profile.secrets) {
    if (!is_variable_name(name))
      refuse("secrets", name.substr(0, name.find('=')), "it is not the name of a variable",
             "give only the name, like AWS_SECRET_ACCESS_KEY; its value stays in your environment");
  }
}

std::map<std::string, fs::path> files_in(const fs::path& folder) {
  std::map<std::string, fs::path> found;
  std::error_code none;
  if (folder.empty()) return found;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".json") found[entry.path().stem().string()] = entry.path();
  }
  return found;
}

fs::path project_profiles(const fs::path& project) {
  std::error_code none;
  for (fs::path folder = fs::absolute(project, none); !folder.empty(); folder = folder.parent_path()) {
    if (fs::is_directory(folder / ".lockstep" / "clusters", none)) return folder / ".lockstep" / "clusters";
    if (folder == folder.parent_path()) break;
  }
  return {};
}

fs::path default_file(const fs::path& own) { return own.parent_path() / "default-cluster"; }

}  // namespace

Profiles::Profiles(fs::path own, const fs::path& project)
    : own_(std::move(own)), project_(project_profiles(project)) {}

Profiles Profiles::of_user() {
  const fs::path folder = user_config_folder();
  std::error_code none;
  return {folder.empty() ? folder : folder / "lockstep" / "clusters", fs::current_path(none)};
}

std::string Profiles::default_name() const {
  if (own_.empty()) return kLocal;
  const std::string name = first_line_of(default_file(own_));
  return name.empty() ? kLocal : name;
}

std::vector<NamedProfile> Profiles::list() const {
  std::map<std::string, fs::path> files = files_in(own_);
  for (const auto& [name, file] : files_in(project_)) files[name] = file;
  files.erase(kLocal);
  const std::string chosen = default_name();
  std::vector<NamedProfile> profiles{{.name = kLocal, .is_default = chosen == kLocal}};
  for (const auto& [name, file] : files) {
    NamedProfile& found =
        profiles.emplace_back(NamedProfile{.name = name, .file = file, .is_default = name == chosen});
    try {
      found.profile = read_profile(file);
    } catch (const Error& error) {
      found.damage = error.message().find(file.string()) == std::string::npos
                         ? quote(file.string()) + ": " + error.message()
                         : error.message();
    }
  }
  return profiles;
}

NamedProfile Profiles::find(const std::string& name) const {
  NamedProfile found = name.empty() ? find_default() : locate(name);
  if (!found.file.empty()) found.profile = read_profile(found.file);
  return found;
}

NamedProfile Profiles::find_default() const {
  const std::string name = default_name();
  try {
    return locate(name);
  } catch (const Error&) {
    throw Error(
        ErrorCode::not_found,
        "the default profile is " + quote(printable(name)) + " in " + quote(default_file(own_).string()) +
            ", and there is no such profile",
        "lockstep cluster default local chooses this machine; lockstep cluster list lists the others");
  }
}

// Without the values in the file.
NamedProfile Profiles::locate(const std::string& wanted) const {
  if (wanted == kLocal) return {.name = kLocal, .is_default = default_name() == kLocal};
  check_name(wanted);
  std::vector<std::string> names{kLocal};
  for (const fs::path& folder : {project_, own_}) {
    for (const auto& [known, file] : files_in(folder)) {
      if (known == wanted) return {.name = wanted, .file = file, .is_default = wanted == default_name()};
      names.push_back(known);
    }
  }
  const std::string near = nearest(wanted, names);
  throw Error(ErrorCode::not_found, "there is no profile " + quote(wanted),
              near.empty() ? "lockstep cluster list lists them; lockstep cluster create makes one"
                           : "did you mean " + near + "? lockstep cluster list lists them");
}

void Profiles::set_default(const std::string& name) const {
  find(name);
  if (own_.empty())
    throw Error(ErrorCode::io, "there is no folder for the user's settings", "set HOME or XDG_CONFIG_HOME");
  make_folders(own_);
  write_file_atomic(default_file(own_), name + "\n");
}

void Profiles::check_not_hidden(const std::string& name) const {
  const std::map<std::string, fs::path> of_project = files_in(project_);
  if (const auto hiding = of_project.find(name); hiding != of_project.end())
    throw Error(ErrorCode::invalid_option,
                "cannot write your profile " + quote(name) + ": the project's " +
                    quote(hiding->second.string()) + " hides it",
                "change that file, or give yours another name");
}

fs::path Profiles::save(const std::string& name, const Profile& profile) const {
  check_name(name);
  if (name == kLocal)
    throw Error(ErrorCode::invalid_option, "the profile \"local\" is always there and cannot be changed",
                "give yours another name");
  check_profile(profile);
  check_not_hidden(name);
  if (own_.empty())
    throw Error(ErrorCode::io, "there is no folder for the user's settings", "set HOME or XDG_CONFIG_HOME");
  make_folders(own_);
  const fs::path file = own_ / (name + ".json");
  write_file_atomic(file, to_json(profile).dump(2) + "\n");
  return file;
}

void Profiles::remove(const std::string& name) const {
  const NamedProfile found = locate(name);
  if (found.file.parent_path() != own_)
    throw Error(ErrorCode::invalid_option, "the profile " + quote(name) + " is not one of the user's",
                found.file.empty() ? "it is always there" : "remove the file " + quote(found.file.string()));
  std::error_code failed;
  if (!fs::remove(found.file, failed) && failed)
    throw errno_error(failed.value(), "remove", found.file.string());
  if (found.is_default) set_default(kLocal);
}

Profile read_profile(const fs::path& file) {
  Profile profile;
  const std::string where = quote(file.string());
  constexpr const char* kHint =
      "write it like {\"scheduler\": \"slurm\", \"partition\": \"gpu\", \"nodes\": 2}";
  try {
    const Json json = parse_json(read_file(file, kMostProfileBytes), KeyTwice::refused);
    if (!json.is_object())
      throw Error(ErrorCode::corrupt_data, "cannot read the profile " + where + ": it is not a JSON object",
                  kHint);
    read_json(json, profile, where);
    with_context([&] { return "while reading " + where; }, [&] { check_profile(profile); });
  } catch (const JsonError& error) {
    throw Error(ErrorCode::corrupt_data, "cannot read the profile " + where + ": " + reason_of(error), kHint);
  }
  return profile;
}

void check_profile(const Profile& profile) {
  const std::vector<std::string> known = scheduler_names();
  if (std::find(known.begin(), known.end(), profile.scheduler) == known.end()) {
    const std::string near = nearest(profile.scheduler, known);
    refuse("scheduler", profile.scheduler, "the schedulers are " + join(known, " and "),
           near.empty() ? "lockstep cluster discover finds the one of this machine"
                        : "did you mean " + near + "?");
  }
  for (const auto& [key, value] : {std::pair{"login", &profile.login},
                                   {"program", &profile.program},
                                   {"partition", &profile.partition},
                                   {"account", &profile.account},
                                   {"memory", &profile.memory},
                                   {"time", &profile.time},
                                   {"job-folder", &profile.job_folder},
                                   {"network-interface", &profile.network_interface}})
    check_plain(key, *value);
  if (!profile.job_folder.empty() && profile.job_folder.front() != '/')
    refuse("job-folder", profile.job_folder, "it is not an absolute path", "begin it with /");
  if (!is_time(profile.time))
    refuse("time", profile.time, "it is no time",
           "write minutes, minutes:seconds, hours:minutes:seconds or days-hours:minutes:seconds");
  if (!is_memory(profile))
    refuse("memory", profile.memory, "it is no size", "give a size such as 16G or 500M");
  if (profile.program.empty())
    refuse("program", "", "it is the program lockstep on the cluster", "remove the key");
  for (const auto& [key, values] :
       {std::pair{"modules", &profile.modules}, {"additional-paths", &profile.additional_paths}})
    for (const std::string& value : *values) check_plain(key, value);
  for (const std::string& option : profile.options) {
    if (!option.starts_with("-") || has_end_of_line(option))
      refuse("options", option, "an option of the scheduler's command begins with '-'",
             "write it in one word, like --constraint=a100");
  }
  check_environment(profile);
  check_host_key(profile.host_key);
  if (profile.fast_multinode != "auto" && profile.fast_multinode != "on" && profile.fast_multinode != "off")
    refuse("fast-multinode", profile.fast_multinode, "it is on, off or auto", "use one of them");
  if (profile.workers > 0 && profile.workers < profile.nodes)
    refuse("workers", std::to_string(profile.workers),
           "there are " + std::to_string(profile.nodes) + " nodes, and each needs a worker",
           "use fewer nodes or more workers");
}

int64_t ranks_of(const Profile& profile) {
  if (profile.workers > 0) return profile.workers;
  return profile.scheduler == "local" ? 2 : profile.nodes * std::max<int64_t>(1, profile.gpus);
}

std::vector<std::string> worker_environment(const Profile& profile) {
  std::vector<std::string> variables = profile.environment;
  if (!profile.network_interface.empty()) {
    variables.push_back("NCCL_SOCKET_IFNAME=" + profile.network_interface);
    variables.push_back("GLOO_SOCKET_IFNAME=" + profile.network_interface);
  }
  if (profile.fast_multinode == "on") variables.emplace_back("LOCKSTEP_FAST_MULTINODE=on");
  if (profile.fast_multinode == "off") {
    variables.emplace_back("NCCL_IB_DISABLE=1");
    variables.emplace_back("NCCL_NET=Socket");
  }
  return variables;
}

}  // namespace lockstep::cluster
