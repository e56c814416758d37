#include "lockstep/studio/command_words.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/exchange.h"
#include "lockstep/studio/form.h"
#include "lockstep/studio/job_routes.h"
#include "lockstep/studio/sweep_words.h"
#include "lockstep/studio/training.h"

namespace lockstep::studio {
namespace {

using Words = std::vector<std::string>;

// A command that takes a word that the user writes, and options.
struct WrittenCommand {
  const char* name;
  bool takes_word;
  const char* always;  // an option that answers its question, which the page has asked; null: none
};

constexpr std::array kWritten = std::to_array<WrittenCommand>({
    {"cluster create", true, nullptr},
    {"cluster default", true, nullptr},
    {"cluster remove", true, nullptr},
    {"cluster validate", true, nullptr},
    {"cluster wait", true, nullptr},
    {"cluster import", true, nullptr},
    {"cluster discover", false, nullptr},
    {"pool close", true, nullptr},
    {"cloud create", true, "--yes"},
    {"cloud resize", true, "--yes"},
    {"cloud remove", true, "--yes"},
    {"cloud start", true, nullptr},
    {"cloud stop", true, nullptr},
});

// Words that would be read as options are no names.
Words written_words(const WrittenCommand& command, const Json& body, const Setup& setup) {
  Words words = split(command.name, ' ');
  if (command.takes_word) {
    const std::string word = text_in(body, "word");
    if (word.empty()) throw Error(ErrorCode::invalid_option, "a name is missing");
    words.push_back(command.name == std::string("cluster import") ? as_argument(word) : word);
    if (words.back().starts_with('-'))
      throw Error(ErrorCode::invalid_option, quote(word) + " is no name", "a name begins with a letter");
  }
  const Words options = option_words(body.value("options", Json::object()),
                                     form_called(setup, command.name).fields, {"yes", "json"}, command.name);
  words.insert(words.end(), options.begin(), options.end());
  if (command.always != nullptr) words.emplace_back(command.always);
  return words;
}

// Of the weights of two runs.
Words diff_words(const Json& body, const Parts& parts) {
  const Json ids = body.value("ids", Json::array());
  if (!ids.is_array() || ids.size() != 2 || !ids[0].is_string() || !ids[1].is_string())
    throw Error(ErrorCode::invalid_option, "two runs are compared");
  Words words{"diff"};
  for (const Json& id : ids) words.push_back(parts.runs.folder_of(id.get<std::string>()).string());
  return words;
}

// What a layer of a run's network gives for a sample of its data, or of other data.
Words layer_show_words(const Json& body, const Parts& parts) {
  const std::string id = text_in(body, "id");
  const std::string data = text_in(body, "data", "");
  Words words{"layer", "show", parts.runs.folder_of(id).string(),
              as_argument(data.empty() ? parts.runs.summary_of(id).data : data)};
  const Words options =
      option_words(body.value("options", Json::object()), form_called(parts.setup, "layer show").fields,
                   {"json", "output"}, "layer show");
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--json");
  return words;
}

}  // namespace

Words resume_words(const std::filesystem::path& folder, const record::RunSummary& run) {
  return {"train", as_argument(run.data), "--output", folder.string(), "--resume"};
}

// A plan has fewer options than a cluster: no names of networks and keys. Where it has another default, such
// as for the number of workers, it is told that of the cluster.
Words price_words(const Json& body, const Setup& setup) {
  const std::vector<FieldInfo>& known = form_called(setup, "cloud plan").fields;
  const std::vector<FieldInfo>& asked = form_called(setup, "cloud create").fields;
  const Words given = option_words(body.value("options", Json::object()), asked, {"yes"}, "cloud create");
  Words words{"cloud", "plan", "aws"};
  for (const FieldInfo& field : asked) {
    const std::string name = "--" + field.name;
    const auto planned =
        std::find_if(known.begin(), known.end(), [&](const FieldInfo& one) { return one.is_option(name); });
    if (planned == known.end()) continue;
    const auto word = std::find_if(given.begin(), given.end(), [&](const std::string& one) {
      return one.substr(0, one.find('=')) == name;
    });
    if (word != given.end())
      words.push_back(*word);
    else if (planned->default_text != field.default_text)
      words.push_back(name + "=" + field.default_text);
  }
  words.emplace_back("--json");
  return words;
}

Words command_words(const Json& body, const Parts& parts, Files files) {
  const std::string what = text_in(body, "command");
  if (what.starts_with("job ")) return job_words(what, body);
  if (what == "sweep") return new_sweep_words(body, parts.setup);
  if (what.starts_with("sweep ")) return sweep_words(what, body, parts.sweeps);
  for (const WrittenCommand& one : kWritten) {
    if (what == one.name) return written_words(one, body, parts.setup);
  }
  if (what == "export") return export_words(body, parts, files);
  if (what == "diff") return diff_words(body, parts);
  if (what == "network show") return network_show_words(body, parts.setup, files);
  if (what == "layer show") return layer_show_words(body, parts);
  if (what == "train") {
    const Words training = train_words(read_training(body, parts.setup), parts.setup, files);
    if (!is_set_in(body, "as_job")) return training;
    Words words = option_words(body.value("job", Json::object()), form_called(parts.setup, "batch").fields,
                               {"commands"}, "batch");
    words.insert(words.begin(), "batch");
    words.insert(words.end(), training.begin(), training.end());
    return words;
  }
  constexpr std::array kOfRuns{"resume", "remove", "report"};
  if (std::find(kOfRuns.begin(), kOfRuns.end(), what) == kOfRuns.end())
    throw Error(ErrorCode::invalid_option, "studio does not start the command " + quote(what));
  const std::string id = text_in(body, "id");
  const std::filesystem::path folder = parts.runs.folder_of(id);
  if (what == "resume") return resume_words(folder, parts.runs.summary_of(id));
  if (what == "remove") return {"runs", "remove", folder.string(), "--yes"};
  return {"report", folder.string()};
}

}  // namespace lockstep::studio
