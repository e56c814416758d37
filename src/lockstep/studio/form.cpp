#include "lockstep/studio/form.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::studio {
namespace {

Error wrong_type(const char* name, const char* wanted, const Json& value) {
  return {ErrorCode::invalid_option,
          quote(name) + " of the request must be " + wanted + ", and its type is " + value.type_name()};
}

}  // namespace

std::string text_in(const Json& body, const char* name) {
  if (!body.contains(name)) throw Error(ErrorCode::invalid_option, "the request lacks " + quote(name));
  return text_in(body, name, "");
}

std::string text_in(const Json& body, const char* name, const std::string& fallback) {
  const auto found = body.find(name);
  if (found == body.end()) return fallback;
  if (!found->is_string()) throw wrong_type(name, "a text", *found);
  return found->get<std::string>();
}

bool is_set_in(const Json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end()) return false;
  if (!found->is_boolean()) throw wrong_type(name, "true or false", *found);
  return found->get<bool>();
}

Json form_of(const std::vector<FieldInfo>& fields, const std::vector<std::string>& except) {
  Json form = Json::array();
  for (const FieldInfo& info : fields) {
    if (std::find(except.begin(), except.end(), info.name) != except.end()) continue;
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

std::vector<std::string> option_words(const Json& options, const std::vector<FieldInfo>& fields,
                                      const std::vector<std::string>& except, const std::string& command) {
  if (!options.is_object())
    throw Error(ErrorCode::invalid_option, "the options of lockstep " + command +
                                               " must be an object of texts, and their type is " +
                                               options.type_name());
  std::vector<std::string> words;
  for (const auto& [name, value] : options.items()) {
    const auto info = std::find_if(fields.begin(), fields.end(),
                                   [&name = name](const FieldInfo& field) { return field.name == name; });
    const bool is_excepted = std::find(except.begin(), except.end(), name) != except.end();
    if (info == fields.end() || is_excepted)
      throw Error(ErrorCode::invalid_option,
                  "lockstep " + command + " has no option " + quote(name) + " that could be set here");
    const std::string text = text_in(options, name.c_str());
    info->check(text);
    if (info->type == "switch") {
      if (text != info->default_text) words.push_back("--" + name + (text == "true" ? "" : "=" + text));
    } else if (text != info->default_text ||
               info->traits.affects == Affects::weights) {  // a recipe chooses others
      words.push_back("--" + name + "=" + text);
    }
  }
  return words;
}

const CommandForm& form_called(const Setup& setup, const std::string& command) {
  const auto found = std::find_if(setup.commands.begin(), setup.commands.end(),
                                  [&](const CommandForm& one) { return one.name == command; });
  if (found == setup.commands.end())
    throw Error(ErrorCode::not_found, "lockstep has no command " + quote(command));
  return *found;
}

std::string as_argument(const std::string& path) { return path.starts_with('-') ? "./" + path : path; }

}  // namespace lockstep::studio
