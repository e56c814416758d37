// The help screens, wrapped to the terminal, and the texts that man pages share with them.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// Two sentences.
extern const char* const kWhatItIs;

/// What follows an option's name, with a space before it: " N", or nothing after a switch.
std::string value_word(const FieldInfo& field);

/// What an option means, with its other name and its default.
std::string field_help(const FieldInfo& field);

/// What a command does, in sentences.
std::string verb_text(const Verb& verb);

/// What the program is, its commands, and an example.
std::string program_help(const std::vector<Verb>& verbs, int width);

/// Commands of two words that share the first one, such as "cloud". Empty if there are none.
std::string family_help(const std::vector<Verb>& verbs, const std::string& family, int width);

/// How a command is written, e.g. "usage: lockstep train FOLDER [options]".
std::string usage_line(const Verb& verb);

/// One command: usage, details, its options by section.
std::string verb_help(const Verb& verb, int width);

/// `text` cut at spaces into lines of at most `width` columns; every line but the first starts with `indent`
/// spaces.
std::string wrap(const std::string& text, int width, int indent);

/// A sentence and the end of its line, for a terminal of `width` columns (Console::table_width); 0: one line.
std::string sentence(const std::string& text, int width);

}  // namespace lockstep::cli
