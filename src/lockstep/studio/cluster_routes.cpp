#include "lockstep/studio/cluster_routes.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/form.h"

namespace lockstep::studio {
namespace {

constexpr auto kProfileLimit = std::chrono::seconds(60);
constexpr auto kCloudLimit = std::chrono::seconds(120);  // AWS is asked
constexpr auto kDataLimit = std::chrono::seconds(120);   // an object store is listed
constexpr const char* kSamples = "--samples=6";          // of each class

// What could be read as an option is no name.
const std::string& checked_name(const std::string& name) {
  if (name.empty() || name.starts_with('-'))
    throw Error(ErrorCode::invalid_option, quote(name) + " is no name of a profile");
  return name;
}

}  // namespace

std::string list_of_profiles(Commands& commands) {
  return commands.output_of({"cluster", "list", "--json"}, kProfileLimit);
}

std::string about_profile(const std::string& name, Commands& commands) {
  return commands.output_of({"cluster", "show", checked_name(name), "--json"}, kProfileLimit);
}

std::string file_of_profile(const std::string& name, Commands& commands) {
  return commands.output_of({"cluster", "export", checked_name(name)}, kProfileLimit);
}

std::string list_of_pools(Commands& commands) {
  return commands.output_of({"pools", "--json"}, kProfileLimit);
}

std::string list_of_clouds(Commands& commands) {
  return commands.output_of({"cloud", "list", "--json"}, kCloudLimit);
}

// Of the options of a training those count that decide what its data are.
std::string about_data(const Json& body, const Setup& setup, Commands& commands) {
  const std::string data = text_in(body, "data");
  if (data.empty()) throw Error(ErrorCode::invalid_option, "no data folder is named");
  std::vector<std::string> words{"data", "show", as_argument(data), "--json", kSamples};
  const std::vector<FieldInfo>& known = form_called(setup, "data show").fields;
  for (std::string& word : option_words(body.value("options", Json::object()),
                                        form_called(setup, "train").fields, {"samples", "json"}, "train")) {
    const std::string name = word.substr(0, word.find('='));
    if (std::any_of(known.begin(), known.end(),
                    [&](const FieldInfo& field) { return field.is_option(name); }))
      words.push_back(std::move(word));
  }
  return commands.output_of(words, kDataLimit);
}

}  // namespace lockstep::studio
