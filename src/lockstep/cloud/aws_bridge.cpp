#include "lockstep/cloud/aws_bridge.h"

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/cloud/internal/embedded.h"
#include "lockstep/cluster/command.h"

namespace lockstep::cloud {
namespace {

constexpr auto kAskLimit = std::chrono::minutes(15);
constexpr auto kCommandLimit = std::chrono::minutes(10);
constexpr auto kInstallLimit = std::chrono::minutes(30);
constexpr const char* kPins = "pins.txt";  // written last
constexpr const char* kPythonFolder = "cloud-aws";
constexpr size_t kMostSaid = 600;

std::string last_lines(const std::string& text) {
  const std::string end = text.size() > kMostSaid ? "..." + text.substr(text.size() - kMostSaid) : text;
  std::string line;
  for (const std::string& one : split(end, '\n')) {
    if (!one.empty()) line = one;
  }
  return printable(line);
}

// A library of Python's may write to standard output too; the answer is the last line that is JSON.
Json answer_of(const std::string& output, const std::string& what) {
  Json answer;
  bool found = false;
  for (const std::string& line : split(output, '\n')) {
    if (!line.starts_with('{')) continue;
    try {
      answer = parse_json(line);
      found = true;
    } catch (const Json::exception&) {
      continue;
    }
  }
  if (!found) throw Error(ErrorCode::cluster, what + " gave no answer");
  return answer;
}

Json whole_answer(const std::string& output) {
  const size_t begin = output.find('{');
  try {
    return begin == std::string::npos ? Json::object() : parse_json(std::string_view(output).substr(begin));
  } catch (const Json::exception&) {
    return Json::object();
  }
}

ErrorCode code_of(const std::string& kind) {
  for (const char* mistake : {"region", "type", "key", "subnet"}) {
    if (kind == mistake) return ErrorCode::invalid_option;
  }
  return kind == "network" ? ErrorCode::communication : ErrorCode::cluster;
}

void run_step(const std::vector<std::string>& words, const std::string& what) {
  const cluster::CommandEnd end = cluster::run_command(words, {.limit = kInstallLimit});
  if (end.status != 0 || end.out_of_time)
    throw Error(ErrorCode::io, "cannot " + what + ": " + last_lines(end.errors + "\n" + end.output),
                words.front() + " is Python 3 with its module venv (Debian: python3-venv)");
}

}  // namespace

AwsBridge AwsBridge::of_user() {
  const std::filesystem::path cache = lockstep_cache_folder();
  if (cache.empty())
    throw Error(ErrorCode::io, "there is no folder for caches",
                "set HOME or LOCKSTEP_CACHE to an absolute path");
  return AwsBridge(cache / kPythonFolder);
}

bool AwsBridge::is_there() const {
  std::error_code error;
  return std::filesystem::exists(python_ / "bin" / "pcluster", error);
}

std::filesystem::path AwsBridge::install() const {
  std::error_code error;
  if (is_there() && std::filesystem::exists(python_ / kPins, error) &&
      read_file(python_ / kPins) == embedded::requirements())
    return python_;
  make_folders(python_.parent_path());
  run_step({"python3", "-m", "venv", python_.string()}, "make a Python in " + python_.string());
  const std::filesystem::path list = python_ / "wanted.txt";
  write_file_atomic(list, embedded::requirements());
  run_step({(python_ / "bin" / "python").string(), "-m", "pip", "--quiet", "--disable-pip-version-check",
            "install", "--no-deps", "--requirement", list.string()},
           "install ParallelCluster");
  rename_path(list, python_ / kPins);
  return python_;
}

Json AwsBridge::ask(const std::string& command, const std::string& region, Json request) const {
  if (!is_there())
    throw Error(ErrorCode::not_found, "AWS's programs are not installed in " + python_.string(),
                "lockstep cloud setup installs them (ParallelCluster and boto3, about 300 MB)");
  request["command"] = command;
  request["region"] = region;
  const cluster::CommandEnd end =
      cluster::run_command({(python_ / "bin" / "python").string(), "-I", "-", request.dump()},
                           {.input = std::string(embedded::aws_script()), .limit = kAskLimit});
  if (end.out_of_time)
    throw Error(ErrorCode::timeout, "AWS did not answer " + command + " within 15 minutes");
  if (end.status != 0)
    throw Error(ErrorCode::cluster, "cannot ask AWS (" + command + "): " + last_lines(end.errors));
  Json answer = answer_of(end.output, "AWS's program (" + command + ")");
  if (answer.contains("error")) {
    const Json& said = answer["error"];
    Error error(code_of(said.value("kind", "")), printable(said.value("text", "AWS refused")),
                printable(said.value("hint", "")));
    if (const std::string line = said.value("said", ""); !line.empty()) error.add_context(printable(line));
    throw error;
  }
  return answer["ok"];
}

Json AwsBridge::parallel_cluster(std::vector<std::string> words, const std::string& region) const {
  if (!is_there()) ask("", region, Json::object());  // says how to install it
  words.insert(words.begin(), (python_ / "bin" / "pcluster").string());
  words.insert(words.end(), {"--region", region});
  const cluster::CommandEnd end = cluster::run_command(words, {.limit = kCommandLimit});
  const Json answer = whole_answer(end.output);
  if (end.status == 0 && !end.out_of_time) return answer;
  std::string reason = answer.value("message", "");
  for (const char* list : {"configurationValidationErrors", "validationMessages", "updateValidationErrors"}) {
    if (!answer.contains(list)) continue;
    for (const Json& one : answer[list]) {
      if (one.value("level", "ERROR") == "ERROR") reason += "; " + one.value("message", "");
    }
  }
  if (reason.empty())
    reason = end.out_of_time ? "no answer in ten minutes" : last_lines(end.errors + "\n" + end.output);
  throw Error(ErrorCode::cluster, "ParallelCluster refused " + words[1] + ": " + printable(reason));
}

}  // namespace lockstep::cloud
