// Forms of commands: their options as a page shows them, and the words that a filled form stands for.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/base/json.h"
#include "lockstep/studio/studio.h"

namespace lockstep::studio {

/// What the bodies of requests have. All throw invalid_option, naming the field, for a value of another type;
/// the first one also for what is not there, for which the others have a fallback.
std::string text_in(const Json& body, const char* name);
std::string text_in(const Json& body, const char* name, const std::string& fallback);
bool is_set_in(const Json& body, const char* name);  ///< false if it is not there

/// Options for a form: [{"section", "name", "type", "help", "default", "choices"}], without those of
/// `except`.
Json form_of(const std::vector<FieldInfo>& fields, const std::vector<std::string>& except);

/// The words of {"NAME": "TEXT", ...}: "--NAME=TEXT", or "--NAME" for a switch that is turned on; nothing for
/// a default. Throws invalid_option for what `command` would refuse by its text alone, and for options of
/// `except`.
std::vector<std::string> option_words(const Json& options, const std::vector<FieldInfo>& fields,
                                      const std::vector<std::string>& except, const std::string& command);

/// Throws not_found if the program has no such command.
const CommandForm& form_called(const Setup& setup, const std::string& command);

/// A path that a command line does not read as an option.
std::string as_argument(const std::string& path);

}  // namespace lockstep::studio
