// What a command of the program is: one row of the table in builtin.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/comm/launcher.h"

namespace lockstep::cli {

/// An option as it was typed: its name without dashes, and its text.
struct Setting {
  std::string name;
  std::string text;
};

/// What stood after the verb.
struct Call {
  std::vector<std::string> words;
  std::vector<Setting>
      settings;  ///< in the order of the options' list; of an option typed twice the last one
  bool help = false;
  std::optional<comm::Launch> launch{};  ///< for verbs that join ranks, when a launcher started this process

  /// The option's text, or nothing when it was not typed.
  std::optional<std::string> text_of(std::string_view name) const;
};

struct Verb {
  std::string name;   ///< one word, or two: "network show"
  std::string words;  ///< what it needs, e.g. "FOLDER"; the last one ends in "..." when there may be more of
                      ///< it, and "[NAME...]" may be none
  std::string summary;  ///< one line for the list of commands
  std::string details;  ///< sentences for its own help
  std::vector<FieldInfo> (*fields)();
  int (*run)(const Call& call, Console& console);  ///< gives the exit status
  int error_status = 0;                            ///< the exit status after an error; 0: by its kind
  bool hidden = false;                             ///< for our own scripts: not listed
  bool joins_ranks = false;                        ///< under a launcher its processes work as one
  bool starts_program = false;                     ///< what follows the first word is another program's
};

/// Sets the fields of `options` that were typed; settings of other structs are passed over. Gives the names
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
