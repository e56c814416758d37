#include "lockstep/studio/training.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/graph.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::studio {
namespace {

constexpr auto kPlanLimit = std::chrono::seconds(120);
constexpr size_t kMostName = 60;

// These say where and what, which the page says itself.
bool is_set_by_page(const std::string& name) {
  return name == "output" || name == "network" || name == "resume";
}

std::string file_name_of(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, kMostName)) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    text += is_plain ? c : '-';
  }
  return text.empty() || text[0] == '-' ? "network" + text : text;
}

// A new name says that the content is another one, so a run that uses the file can be repeated.
std::string written_network(const Training& training, const Setup& setup) {
  if (training.network.is_string()) return training.network.get<std::string>();
  nn::read_graph(training.network);  // throws what is wrong with it
  const std::string text = training.network.dump(1) + "\n";
  const std::filesystem::path folder =
      std::filesystem::absolute(setup.roots.front()).lexically_normal() / "networks";
  make_folders(folder);
  const auto path =
      folder / (file_name_of(training.name) + "-" + as_hex(hash_of(text)).substr(0, 8) + ".json");
  if (!std::filesystem::exists(path)) write_file_atomic(path, text);
  return path.string();
}

std::vector<std::string> words_of(const Training& training, const std::string& command,
                                  const std::string& network) {
  std::vector<std::string> words{command, as_argument(training.data)};
  if (!network.empty()) words.push_back("--network=" + network);
  words.insert(words.end(), training.options.begin(), training.options.end());
  return words;
}

}  // namespace

std::string as_argument(const std::string& path) { return path.starts_with('-') ? "./" + path : path; }

Json training_form(const Setup& setup) {
  Json form = Json::array();
  for (const FieldInfo& info : setup.train_options) {
    if (is_set_by_page(info.name)) continue;
    Json json{{"section", info.section},
              {"name", info.name},
              {"type", info.type},
              {"help", info.help},
              {"default", info.default_text}};
    if (!info.choices.empty()) json["choices"] = info.choices;
    form.push_back(std::move(json));
  }
  return form;
}

Training read_training(const Json& body, const Setup& setup) {
  Training training;
  training.data = body.value("data", "");
  if (training.data.empty())
    throw Error(ErrorCode::invalid_option, "no data folder is named",
                "name a folder with a folder of images per class");
  training.network = body.value("network", Json("auto"));
  training.name = body.value("name", "network");
  const Json options = body.value("options", Json::object());
  if (!options.is_object()) throw Error(ErrorCode::invalid_option, "\"options\" must be an object of texts");
  for (const auto& [name, value] : options.items()) {
    const auto info = std::find_if(setup.train_options.begin(), setup.train_options.end(),
                                   [&name = name](const FieldInfo& field) { return field.name == name; });
    if (info == setup.train_options.end() || is_set_by_page(name) || !value.is_string())
      throw Error(ErrorCode::invalid_option,
                  "lockstep train has no option " + quote(name) + " that could be set here");
    const std::string text = value.get<std::string>();
    info->check(text);
    if (info->type == "switch") {
      if (text == "true") training.options.push_back("--" + name);
    } else if (text != info->default_text) {
      training.options.push_back("--" + name + "=" + text);
    }
  }
  return training;
}

std::vector<std::string> train_words(const Training& training, const Setup& setup) {
  std::vector<std::string> words = words_of(training, "train", written_network(training, setup));
  const std::filesystem::path root = std::filesystem::absolute(setup.roots.front()).lexically_normal();
  words.push_back("--output=" + record::default_name(file_name_of(training.name), root).string());
  return words;
}

std::string plan_of(const Training& training, const Setup& setup, Commands& commands) {
  std::vector<std::string> words = words_of(training, "plan", written_network(training, setup));
  words.emplace_back("--json");
  return commands.output_of(words, kPlanLimit);
}

}  // namespace lockstep::studio
