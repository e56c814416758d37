#include "lockstep/studio/training.h"

#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/nn/graph.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/studio/designer.h"
#include "lockstep/studio/form.h"

namespace lockstep::studio {
namespace {

constexpr auto kPlanLimit = std::chrono::seconds(120);
constexpr size_t kMostName = 60;

// These say where and what, which the page says itself.
std::vector<std::string> set_by_training_page() { return {"output", "network", "resume"}; }

std::string file_name_of(const std::string& name) {
  std::string text;
  for (const char c : name.substr(0, kMostName)) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    text += is_plain ? c : '-';
  }
  return text.empty() || text[0] == '-' ? "network" + text : text;
}

std::vector<std::string> words_of(const Training& training, const std::string& command,
                                  const std::string& network) {
  std::vector<std::string> words{command, as_argument(training.data)};
  if (!network.empty()) words.push_back("--network=" + network);
  words.insert(words.end(), training.options.begin(), training.options.end());
  return words;
}

}  // namespace

Json training_form(const Setup& setup) {
  return form_of(form_called(setup, "train").fields, set_by_training_page());
}

std::vector<std::string> training_options(const Json& options, const Setup& setup) {
  return option_words(options, form_called(setup, "train").fields, set_by_training_page(), "train");
}

// A new name says that the content is another one, so a run that uses the file can be repeated.
std::string network_word(const Json& network, const std::string& name, const Setup& setup, Files files) {
  if (network.is_string()) return network.get<std::string>();
  nn::read_graph(network);  // throws what is wrong with it
  const std::string text = network.dump(1) + "\n";
  const std::filesystem::path folder =
      std::filesystem::absolute(setup.roots.front()).lexically_normal() / "networks";
  const auto path = folder / (file_name_of(name) + "-" + as_hex(hash_of(text)).substr(0, 8) + ".json");
  if (files == Files::named) return path.string();
  make_folders(folder);
  try {
    if (!std::filesystem::exists(path)) write_file_atomic(path, text);
  } catch (const Error&) {
    if (!std::filesystem::exists(path)) throw;  // else another request has written the same
  }
  return path.string();
}

Training read_training(const Json& body, const Setup& setup) {
  Training training;
  training.data = text_in(body, "data", "");
  if (training.data.empty())
    throw Error(ErrorCode::invalid_option, "no data folder is named",
                "name a folder with a folder of images per class");
  training.network = body.value("network", Json("auto"));
  if (training.network.is_object()) {
    if (const std::string name = built_in_name(training.network); !name.empty()) training.network = name;
  }
  training.name = text_in(body, "name", "");
  if (training.name.empty()) training.name = io::short_name(training.data);
  training.options = training_options(body.value("options", Json::object()), setup);
  return training;
}

std::vector<std::string> train_words(const Training& training, const Setup& setup, Files files) {
  std::vector<std::string> words =
      words_of(training, "train", network_word(training.network, training.name, setup, files));
  const std::filesystem::path root = std::filesystem::absolute(setup.roots.front()).lexically_normal();
  words.push_back("--output=" + record::default_name(file_name_of(training.name), root).string());
  return words;
}

std::string plan_of(const Training& training, const Setup& setup, Commands& commands) {
  std::vector<std::string> words =
      words_of(training, "plan", network_word(training.network, training.name, setup, Files::written));
  words.emplace_back("--json");
  return commands.output_of(words, kPlanLimit);
}

}  // namespace lockstep::studio
