#include "lockstep/cli/arguments.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/help.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/summary.h"

namespace lockstep::cli {
namespace {

std::string help_hint(const Verb& verb) { return "lockstep " + verb.name + " --help lists all options"; }

struct OtherName {
  const char* there;
  const char* here;
};

// What other programs call these options.
constexpr std::array kOtherNames = std::to_array<OtherName>({
    {"lr", "learning-rate"},
    {"bs", "mini-batch-size"},
    {"batch", "mini-batch-size"},
    {"batch-size", "mini-batch-size"},
    {"wd", "weight-decay"},
    {"epoch", "max-epochs"},
    {"epochs", "max-epochs"},
    {"num-epochs", "max-epochs"},
    {"steps", "max-steps"},
    {"gpu", "devices"},
    {"gpus", "devices"},
    {"num-workers", "workers"},
    {"threads", "workers"},
    {"nproc", "ranks"},
    {"arch", "network"},
    {"model", "network"},
    {"out", "output"},
    {"output-dir", "output"},
    {"o", "output"},
    {"ckpt", "weights"},
    {"val", "validation"},
    {"img-size", "image-size"},
    {"amp", "precision"},
});

// Whether `typed` is some of the parts of `name` between dashes, one after the other.
bool has_parts(const std::string& name, const std::string& typed) {
  return ("-" + name + "-").find("-" + typed + "-") != std::string::npos;
}

std::string option_meant(std::string typed, const std::vector<std::string>& known) {
  typed = lower(typed.substr(std::min(typed.find_first_not_of('-'), typed.size())));
  std::replace(typed.begin(), typed.end(), '_', '-');
  const auto is_known = [&](const char* name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (is_known(typed.c_str())) return typed;
  if (const std::string plural = typed + "s"; is_known(plural.c_str())) return plural;
  for (const OtherName& other : kOtherNames) {
    if (typed == other.there && is_known(other.here)) return other.here;
  }
  std::string best;
  for (const std::string& name : known) {
    if (has_parts(name, typed) && (best.empty() || name.size() < best.size())) best = name;
  }
  return best.empty() ? nearest(typed, known) : best;
}

[[noreturn]] void unknown_option(const Verb& verb, const std::vector<FieldInfo>& fields,
                                 const std::string& typed) {
  const std::string option = typed.substr(0, typed.find('='));
  std::vector<std::string> known{"help"};
  for (const FieldInfo& field : fields) {
    known.push_back(field.name);
    if (!field.alias().empty()) known.push_back(field.alias());
  }
  const std::string found = option_meant(option, known);
  throw Error(ErrorCode::invalid_option, "there is no option " + option,
              found.empty() ? help_hint(verb) : "did you mean --" + found + "?");
}

// Two or more words that together, with blanks, are the name of something that exists.
std::string name_without_quotes(const std::vector<std::string>& words) {
  std::error_code none;
  for (size_t first = 0; first < words.size(); ++first) {
    std::string name = words[first];
    for (size_t next = first + 1; next < words.size(); ++next) {
      name += " " + words[next];
      if (std::filesystem::exists(name, none)) return name;
    }
  }
  return "";
}

// "RUN" of "[RUN...]".
std::string placeholder(std::string word) {
  std::erase_if(word, [](char c) { return c == '[' || c == ']'; });
  return word.ends_with("...") ? word.substr(0, word.size() - 3) : word;
}

// The name of a cloud, no placeholder.
bool is_literal(const std::string& word) { return word.front() >= 'a' && word.front() <= 'z'; }

// An empty word is mostly a variable of a shell that is not set. Notes and values may be empty.
void check_not_empty(const Verb& verb, const std::vector<std::string>& wanted,
                     const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && !wanted.empty(); ++i) {
    const std::string& name = wanted[std::min(i, wanted.size() - 1)];
    if (!words[i].empty() || is_literal(name) || name.starts_with("TEXT") || name.starts_with("VALUE"))
      continue;
    throw Error(ErrorCode::invalid_option,
                "the " + placeholder(name) + " of lockstep " + verb.name + " is empty",
                "a variable of the shell may not be set; " + usage_line(verb));
  }
}

// A run knows its data.
std::string hint_without_words(const Verb& verb, const Call& call) {
  const std::string output = call.text_of("output").value_or("");
  const bool resumes = verb.name == "train" && call.text_of("resume") == "true" && !output.empty();
  if (!resumes || !record::is_run_folder(output)) return usage_line(verb);
  const std::string data = record::summary_of(output).data;
  return data.empty()
             ? usage_line(verb)
             : "lockstep train " + shell_word(data) + " --output " + shell_word(output) + " --resume";
}

void check_words(const Verb& verb, const Call& call) {
  const std::vector<std::string>& words = call.words;
  const std::vector<std::string> wanted =
      verb.words.empty() ? std::vector<std::string>{} : split(verb.words, ' ');
  const bool open_end =
      !wanted.empty() && (wanted.back().ends_with("...") || wanted.back().ends_with("...]"));
  const std::string hint = usage_line(verb);
  check_not_empty(verb, wanted, words);
  if (words.size() < wanted.size() && !wanted[words.size()].starts_with("[")) {
    const std::string next = placeholder(wanted[words.size()]);
    throw Error(ErrorCode::invalid_option,
                "lockstep " + verb.name + (is_literal(next) ? " needs the word " : " needs a ") + next,
                words.empty() ? hint_without_words(verb, call) : hint);
  }
  if (words.size() > wanted.size() && !open_end) {
    const std::string name = name_without_quotes(words);
    const std::string& extra = words[wanted.size()];
    throw Error(ErrorCode::invalid_option,
                "lockstep " + verb.name + " does not accept the word \"" + extra + "\"",
                !name.empty()             ? "a name with blanks needs quotes: " + shell_word(name)
                : verb.searches           ? "write the command after --, as in -- train FOLDER"
                : extra.starts_with("--") ? "options are read before --; leave out the --"
                                          : hint);
  }
}

CLI::Option* add_field(CLI::App& app, const FieldInfo& field) {
  const std::string names = "--" + field.name + (field.alias().empty() ? "" : ",--" + field.alias());
  CLI::Option* option = field.type == "switch" ? app.add_flag(names) : app.add_option(names);
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

[[noreturn]] void no_value(const std::string& option, const std::vector<FieldInfo>& fields) {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& one) { return one.is_option(option); });
  throw Error(ErrorCode::invalid_option, "option " + option + " needs a value",
              field == fields.end() ? "" : field->help);
}

// In `--output --resume` the value is missing; CLI11 would take the next word as the value.
std::string value_of(const FieldInfo& field, const CLI::Option& option,
                     const std::vector<FieldInfo>& fields) {
  std::string value = option.results().back();
  for (const FieldInfo& other : fields) {
    if (other.is_option(value)) no_value("--" + field.name, fields);
  }
  return value;
}

bool is_value_of(const FieldInfo& field, const std::string& word) {
  if (field.traits.knows(word)) return true;
  std::error_code none;
  return !word.empty() && !word.starts_with("-") && !std::filesystem::exists(word, none);
}

// Writes options that may stand alone as "--name=value".
std::vector<std::string> with_values(const std::vector<std::string>& arguments,
                                     const std::vector<FieldInfo>& fields) {
  std::vector<std::string> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    written.push_back(arguments[i]);
    for (const FieldInfo& field : fields) {
      if (field.traits.alone == nullptr || !field.is_option(arguments[i])) continue;
      const bool has_value = i + 1 < arguments.size() && is_value_of(field, arguments[i + 1]);
      written.back() += "=" + (has_value ? arguments[++i] : field.traits.alone);
      break;
    }
  }
  return written;
}

void parse(CLI::App& app, const Verb& verb, const std::vector<FieldInfo>& fields,
           const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed = with_values(arguments, fields);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    no_value(text.substr(0, text.find(':')), fields);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_option, error.what(), help_hint(verb));
  }
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

  parse(app, verb, fields, arguments);
  if (call.help) return call;
  for (const std::string& unknown : app.remaining()) {
    if (unknown != "--") unknown_option(verb, fields, unknown);
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (options[i]->count() == 0) continue;
    call.settings.push_back({fields[i].name, value_of(fields[i], *options[i], fields)});
    fields[i].check(call.settings.back().text);
  }
  check_words(verb, call);
  return call;
}

Call read_program_arguments(const Verb& verb, const std::vector<std::string>& arguments) {
  size_t first = 0;
  std::vector<std::string> own;
  const std::vector<FieldInfo> fields = verb.fields();
  while (first < arguments.size() && arguments[first].starts_with("-") && arguments[first] != "--") {
    const std::string option = arguments[first] == "-n" ? "--ranks" : arguments[first];
    own.push_back(option);
    ++first;
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldInfo& one) { return one.is_option(option); });
    if (field != fields.end() && field->type != "switch" && first < arguments.size())
      own.push_back(arguments[first++]);
  }
  if (first < arguments.size() && arguments[first] == "--") ++first;
  if (first < arguments.size()) own.push_back(arguments[first]);
  Call call = read_arguments(verb, own);
  call.words.assign(arguments.begin() + static_cast<std::ptrdiff_t>(first), arguments.end());
  return call;
}

Call read_search_arguments(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<FieldInfo> fields = verb.fields();
  std::vector<std::string> own;
  std::vector<Setting> searched;
  for (auto word = arguments.begin(); word != dashes; ++word) {
    const size_t sign = word->find('=');
    const std::string option = word->substr(0, sign);
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldInfo& one) { return one.is_option(option); });
    if (!word->starts_with("--") || field != fields.end() || *word == "--help") {
      own.push_back(*word);
      if (field == fields.end() || sign != std::string::npos || word + 1 == dashes) continue;
      if (field->type != "switch") own.push_back(*++word);
      continue;
    }
    if (sign == std::string::npos && (word + 1 == dashes || (word + 1)->starts_with("--")))
      throw Error(ErrorCode::invalid_option, "option " + option + " needs the values that are searched",
                  "such as 0.001..0.1:log, 1..5 or a,b,c");
    std::string text = sign == std::string::npos ? *++word : word->substr(sign + 1);
    std::string name = option.substr(2);
    if (name == "param") {
      const size_t equals = text.find('=');
      if (equals == std::string::npos)
        throw Error(ErrorCode::invalid_option, "--param needs NAME=VALUES, not " + quote(text),
                    "such as --param seed=1..5");
      name = text.substr(0, equals);
      text = text.substr(equals + 1);
    }
    searched.push_back({std::move(name), std::move(text), option != "--param"});
  }
  Call call = read_arguments(verb, own);
  call.searched = std::move(searched);
  if (dashes != arguments.end()) call.words.insert(call.words.end(), dashes + 1, arguments.end());
  return call;
}

}  // namespace lockstep::cli
