// A command of the program: one row of the table in builtin.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/launch/launcher.h"

namespace lockstep::cli {

/// An option of a command line: its name without dashes, and its text.
struct Setting {
  std::string name;
  std::string text;
  bool as_option = true;  ///< false: --param name=text
};

/// What follows the command's name on the command line.
struct Call {
  std::vector<std::string> words;
  std::vector<Setting> settings;  ///< in the order of the option list; the last text of a repeated option
  std::vector<Setting> searched;  ///< of a verb that searches: options that are not its own, in their order
  bool help = false;
  std::optional<launch::Launch>
      launch{};  ///< of a command that joins ranks, if a launcher started this process

  /// The option's text, or nothing if it was not given.
  std::optional<std::string> text_of(std::string_view name) const;
};

struct Verb {
  std::string name;     ///< one word, or two: "network show"
  std::string words;    ///< its words, e.g. "FOLDER"; a last word that ends in "..." can be repeated, and
                        ///< "[NAME...]" can be absent
  std::string summary;  ///< one line for the list of commands
  std::string details;  ///< sentences for its own help
  std::vector<FieldInfo> (*fields)();
  int (*run)(const Call& call, Console& console) = nullptr;  ///< returns the exit status; null: the engine
                                                             ///< runs the command (engine.h)
  int error_status = 0;         ///< the exit status after an error; 0: it depends on the error
  bool hidden = false;          ///< for the project's scripts, not listed
  bool joins_ranks = false;     ///< the processes that a launcher starts work as one
  bool starts_program = false;  ///< the words from the first one on are another program's
  bool searches = false;  ///< unknown options before "--" are searched, the words after it are a program's
};

/// Sets the fields of `options` that were given, and ignores the settings of other structs. Returns the names
/// that were set.
template <Described T>
std::vector<std::string> take_settings(const Call& call, T& options) {
  const std::vector<std::string> known = field_names<T>();
  std::vector<std::string> names;
  for (const Setting& setting : call.settings) {
    for (const std::string& name : known) {
      if (name != setting.name) continue;
      set_field(options, setting.name, setting.text);
      names.push_back(name);
    }
  }
  return names;
}

template <Described T>
T settings_of(const Call& call) {
  T options;
  take_settings(call, options);
  return options;
}

}  // namespace lockstep::cli
