#include "lockstep/studio/sweep_words.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/studio/form.h"
#include "lockstep/studio/training.h"
#include "lockstep/sweep/space.h"

namespace lockstep::studio {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostNote = 2000;

Words set_by_new_sweep() { return {"output", "resume"}; }

std::string trial_in(const Json& body) {
  const auto found = body.find("trial");
  if (found == body.end() || !found->is_number_integer() || *found < 0)
    throw Error(ErrorCode::invalid_option, "the request names no trial");
  return std::to_string(found->get<int64_t>());
}

// --NAME=VALUES, or --param NAME=VALUES for an option that sweep has too.
Words searched_words(const Json& parameters, const Setup& setup) {
  if (!parameters.is_array() || parameters.empty())
    throw Error(ErrorCode::invalid_option, "nothing is searched",
                "add an option of the training with a range or a list of values");
  const std::vector<FieldInfo>& training = form_called(setup, "train").fields;
  const std::vector<FieldInfo>& own = form_called(setup, "sweep").fields;
  sweep::Space space;
  Words words;
  for (const Json& one : parameters) {
    const std::string name = text_in(one, "name"), values = text_in(one, "values");
    const auto is_called = [&](const FieldInfo& field) { return field.name == name; };
    if (std::none_of(training.begin(), training.end(), is_called))
      throw Error(ErrorCode::invalid_option, "train has no option " + quote(name) + " to search");
    space.add(name, values);
    const bool is_own = std::any_of(own.begin(), own.end(), is_called);
    words.push_back((is_own ? "--param=" : "--") + name + "=" + values);
  }
  return words;
}

}  // namespace

Json sweep_form(const Setup& setup) {
  return form_of(form_called(setup, "sweep").fields, set_by_new_sweep());
}

Words new_sweep_words(const Json& body, const Setup& setup) {
  const std::string data = text_in(body, "data");
  if (data.empty())
    throw Error(ErrorCode::invalid_option, "no data folder is named",
                "name a folder with a folder of images per class");
  Words words{"sweep"};
  const auto add = [&](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  add(searched_words(body.value("parameters", Json::array()), setup));
  add(option_words(body.value("options", Json::object()), form_called(setup, "sweep").fields,
                   set_by_new_sweep(), "sweep"));
  const std::filesystem::path root = std::filesystem::absolute(setup.roots.front()).lexically_normal();
  words.push_back("--output=" + record::default_name("sweep", root).string());
  add({"--", "train", as_argument(data)});
  if (const std::string network = text_in(body, "network", ""); !network.empty())
    words.push_back("--network=" + network);
  add(training_options(body.value("training", Json::object()), setup));
  return words;
}

Words sweep_words(const std::string& command, const Json& body, Sweeps& sweeps) {
  const std::string folder = sweeps.paths_of(text_in(body, "sweep")).folder.string();
  if (command == "sweep resume") return {"sweep", "--resume", "--output=" + folder};
  if (command == "sweep stop")
    return body.contains("trial") ? Words{"sweep", "stop", folder, trial_in(body)}
                                  : Words{"sweep", "stop", folder};
  if (command == "sweep restart") return {"sweep", "restart", folder, trial_in(body)};
  if (command == "sweep annotate") {
    const std::string text = text_in(body, "text");
    if (text.size() > kMostNote)
      throw Error(ErrorCode::invalid_option,
                  "the note has more than " + std::to_string(kMostNote) + " bytes");
    return {"sweep", "annotate", folder, trial_in(body), "--", text};
  }
  if (command == "sweep report") {
    Words trials;
    for (const Json& one : body.value("trials", Json::array())) trials.push_back(trial_in({{"trial", one}}));
    Words words{"report", folder};
    if (!trials.empty()) words.push_back("--trials=" + join(trials, ","));
    return words;
  }
  throw Error(ErrorCode::invalid_option, "studio does not start the command " + quote(command));
}

}  // namespace lockstep::studio
