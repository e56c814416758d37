#include "lockstep/cli/arguments.h"

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

std::string help_hint(const Verb& verb) { return "lockstep " + verb.name + " --help lists all options"; }

[[noreturn]] void unknown_option(const Verb& verb, const std::vector<FieldInfo>& fields, const std::string& typed) {
  const std::string option = typed.substr(0, typed.find('='));
  std::vector<std::string> known{"help"};
  for (const FieldInfo& field : fields) known.push_back(field.name);
  const std::string found = nearest(option.substr(std::min(option.find_first_not_of('-'), option.size())), known);
  throw Error(ErrorCode::invalid_option, "there is no option " + option, found.empty() ? help_hint(verb) : "did you mean --" + found + "?");
}

void check_words(const Verb& verb, const std::vector<std::string>& words) {
  const std::vector<std::string> wanted = verb.words.empty() ? std::vector<std::string>{} : split(verb.words, ' ');
  const bool open_end = !wanted.empty() && wanted.back().ends_with("...");
  const std::string hint = "usage: lockstep " + verb.name + " " + verb.words + (verb.words.empty() ? "" : " ") + "[options]";
  if (words.size() < wanted.size()) {
    throw Error(ErrorCode::invalid_option, "lockstep " + verb.name + " needs a " + wanted[words.size()], hint);
  }
  if (words.size() > wanted.size() && !open_end) {
    throw Error(ErrorCode::invalid_option, "lockstep " + verb.name + " has no use for \"" + words[wanted.size()] + "\"", hint);
  }
}

// A value is optional to CLI11, so that its absence gets our own words.
CLI::Option* add_field(CLI::App& app, const FieldInfo& field) {
  CLI::Option* option = field.type == "switch" ? app.add_flag("--" + field.name) : app.add_option("--" + field.name)->expected(0, 1);
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

Setting setting_of(const FieldInfo& field, const CLI::Option& option) {
  const std::vector<std::string> values = option.results();
  if (values.empty() || (values.back().empty() && field.type != "text")) {
    throw Error(ErrorCode::invalid_option, "option --" + field.name + " needs a value", field.help);
  }
  return {field.name, values.back()};
}

}  // namespace

std::optional<std::string> Call::text_of(std::string_view name) const {
  for (const Setting& setting : settings) {
    if (setting.name == name) return setting.text;
  }
  return std::nullopt;
}

Call read_arguments(const Verb& verb, const std::vector<std::string>& arguments) {
  const std::vector<FieldInfo> fields = verb.fields();
  Call call;
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_option("words", call.words)->expected(0, CLI::detail::expected_max_vector_size);
  app.add_flag("-h,--help", call.help);
  std::vector<CLI::Option*> options;
  for (const FieldInfo& field : fields) options.push_back(add_field(app, field));

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_option, error.what(), help_hint(verb));
  }
  if (call.help) return call;
  if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) unknown_option(verb, fields, unknown.front());
  for (size_t i = 0; i < fields.size(); ++i) {
    if (options[i]->count() > 0) call.settings.push_back(setting_of(fields[i], *options[i]));
  }
  check_words(verb, call.words);
  return call;
}

}  // namespace lockstep::cli
