#include "lockstep/cli/completion.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

using Words = std::vector<std::string>;

// In shells, where `special` are the characters that the text stands between, or that mean something there.
std::string escaped(const std::string& text, std::string_view special, std::string_view before = "\\") {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += before;
    result += c;
  }
  return result;
}

// For bash and zsh.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

bool is_listed(const Verb& verb) { return !verb.hidden; }

// The first word of a command, and its second one or "".
std::string first_of(const Verb& verb) { return split(verb.name, ' ').front(); }
std::string second_of(const Verb& verb) {
  const Words words = split(verb.name, ' ');
  return words.size() > 1 ? words[1] : "";
}

// First words in the order of the help; `help` is no row of the table.
Words first_words(const std::vector<Verb>& verbs) {
  Words words;
  for (const Verb& verb : verbs) {
    if (is_listed(verb) && std::find(words.begin(), words.end(), first_of(verb)) == words.end())
      words.push_back(first_of(verb));
  }
  words.emplace_back("help");
  return words;
}

std::string summary_of(const std::string& first, const std::vector<Verb>& verbs) {
  if (first == "help") return "show the help of a command";
  Words seconds;
  for (const Verb& verb : verbs) {
    if (verb.name == first) return verb.summary;
    if (is_listed(verb) && first_of(verb) == first) seconds.push_back(second_of(verb));
  }
  return join(seconds, ", ");
}

// The commands of two words that begin with this one.
std::vector<Verb> family_of(const std::string& first, const std::vector<Verb>& verbs) {
  std::vector<Verb> family;
  for (const Verb& verb : verbs) {
    if (is_listed(verb) && first_of(verb) == first && !second_of(verb).empty()) family.push_back(verb);
  }
  return family;
}

Words seconds_of(const std::string& first, const std::vector<Verb>& verbs) {
  Words seconds;
  for (const Verb& verb : family_of(first, verbs)) seconds.push_back(second_of(verb));
  return seconds;
}

Words names_of(const FieldInfo& field) {
  return field.alias().empty() ? Words{field.name} : Words{field.name, field.alias()};
}

// The words that a command's own word can be, if they are listed: "bash|zsh|fish".
Words word_choices(const Verb& verb) {
  const bool lowercase = std::none_of(verb.words.begin(), verb.words.end(),
                                      [](char c) { return (c < 'a' || c > 'z') && c != '|'; });
  return lowercase && !verb.words.empty() ? split(verb.words, '|') : Words{};
}

// ---------------------------------------------------------------- bash

constexpr const char* kBashHead =
    R"(# Completes the commands and options of lockstep in bash. Made by: lockstep completion bash
_lockstep() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local at=1 options='' choices='' words='' values='' i
  COMPREPLY=()
  # --name=value arrives as three words.
  if [[ $word == = ]]; then
    word=''
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $command == help && $COMP_CWORD -gt 1 ]]; then
    at=2 command=${COMP_WORDS[2]}
  fi
)";

constexpr const char* kBashEnd = R"(  esac
  # What stands behind the name of a program is the program's.
  if [[ $values ]]; then
    for ((i = at + 1; i < COMP_CWORD; ++i)); do
      if [[ " $values " == *" ${COMP_WORDS[i]} "* ]]; then
        ((++i))
      elif [[ ${COMP_WORDS[i]} != [-=]* ]]; then
        ! declare -F _command_offset >/dev/null || _command_offset "$i"
        return
      fi
    done
    [[ $word == -* || " $values " == *" $before "* ]] || words=$(compgen -c -- "$word")
  fi
  if [[ $choices ]]; then
    words=$choices
  elif [[ $word == -* ]]; then
    words=$options
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _lockstep lockstep
)";

std::string bash_options(const Verb& verb) {
  Words options;
  Words values{"-n"};
  std::string cases;
  for (const FieldInfo& field : verb.fields()) {
    Words names;
    for (const std::string& name : names_of(field)) names.push_back("--" + name);
    options.insert(options.end(), names.begin(), names.end());
    if (field.type != "switch") values.insert(values.end(), names.begin(), names.end());
    if (!field.choices.empty())
      cases += "        " + join(names, " | ") + ") choices='" + join(field.choices, " ") + "' ;;\n";
  }
  options.emplace_back("--help");
  std::string text = "      options='" + join(options, " ") + "'\n";
  if (!word_choices(verb).empty()) text += "      words='" + join(word_choices(verb), " ") + "'\n";
  if (verb.starts_program) text += "      values='" + join(values, " ") + "'\n";
  return cases.empty() ? text : text + "      case $before in\n" + cases + "      esac\n";
}

std::string bash_script(const std::vector<Verb>& verbs) {
  std::string text = kBashHead;
  text += "  if ((COMP_CWORD == at)); then\n    mapfile -t COMPREPLY < <(compgen -W '" +
          join(first_words(verbs), " ") + " --help --version' -- \"$word\")\n    return\n  fi\n";
  Words pairs;
  for (const std::string& first : first_words(verbs)) {
    const Words seconds = seconds_of(first, verbs);
    for (const std::string& second : seconds) pairs.push_back("'" + first + " " + second + "'");
    if (!seconds.empty())
      text += "  if [[ $command == " + first +
              " && $word != -* ]] && ((COMP_CWORD == at + 1)); then\n    "
              "mapfile -t COMPREPLY < <(compgen -W '" +
              join(seconds, " ") + "' -- \"$word\")\n    return\n  fi\n";
  }
  text += "  case \"$command ${COMP_WORDS[at + 1]}\" in\n    " + join(pairs, " | ") +
          ") command+=\" ${COMP_WORDS[++at]}\" ;;\n  esac\n  case $command in\n";
  for (const Verb& verb : verbs) {
    if (is_listed(verb)) text += "    '" + verb.name + "')\n" + bash_options(verb) + "      ;;\n";
  }
  return text + kBashEnd;
}

// ---------------------------------------------------------------- zsh

std::string zsh_options(const Verb& verb) {
  std::string text;
  for (const FieldInfo& field : verb.fields()) {
    for (const std::string& name : names_of(field)) {
      const std::string label = "--" + name + (field.type == "switch" ? "[" : "=[");
      std::string value;
      if (!field.choices.empty()) value = ":value:(" + join(field.choices, " ") + ")";
      if (field.type == "text") value = ":text:_files";
      if (value.empty() && field.type != "switch") value = ":" + field.type + ":";
      text += "      " + in_quotes(label + escaped(field.help, "[]:\\") + "]" + value) + " \\\n";
    }
  }
  text += "      '(-h --help)'{-h,--help}'[show the help]' \\\n";
  if (verb.starts_program) return text + "      '*::program:_normal' ;;\n";
  const Words choices = word_choices(verb);
  return text + "      " +
         (choices.empty() ? std::string("'*:file:_files'") : "'1:word:(" + join(choices, " ") + ")'") +
         " ;;\n";
}

std::string zsh_list(const std::string& name, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "  local -a " + name + "=(\n";
  for (const auto& [word, summary] : rows) text += "    " + in_quotes(word + ":" + summary) + "\n";
  return text + "  )\n";
}

std::string zsh_script(const std::vector<Verb>& verbs) {
  std::string text =
      "#compdef lockstep\n# Completes the commands and options of lockstep in zsh. Made by: "
      "lockstep completion zsh\n_lockstep() {\n";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string& first : first_words(verbs)) rows.emplace_back(first, summary_of(first, verbs));
  text += zsh_list("commands", rows);
  text +=
      "  if [[ $words[2] == help ]] && ((CURRENT > 2)); then\n    shift words\n    ((CURRENT--))\n  fi\n"
      "  if ((CURRENT == 2)); then\n    _describe command commands\n    _arguments '--help[show the help]' "
      "'--version[show the version]'\n    return\n  fi\n  local command=$words[2]\n";
  Words pairs;
  for (const std::string& first : first_words(verbs)) {
    rows.clear();
    for (const Verb& verb : family_of(first, verbs)) {
      rows.emplace_back(second_of(verb), verb.summary);
      pairs.push_back("'" + verb.name + "'");
    }
    if (rows.empty()) continue;
    text += zsh_list("after_" + first, rows);
    const bool is_command =
        std::any_of(verbs.begin(), verbs.end(), [&](const Verb& verb) { return verb.name == first; });
    text += "  if [[ $command == " + first +
            " && $words[3] != -* ]] && ((CURRENT == 3)); then\n    _describe word "
            "after_" +
            first + "\n    " + (is_command ? "_files\n    " : "") + "return\n  fi\n";
  }
  text += "  case \"$words[2] $words[3]\" in\n    " + join(pairs, "|") +
          ")\n      command+=\" $words[3]\"\n      shift words\n      ((CURRENT--)) ;;\n  esac\n"
          "  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const Verb& verb : verbs) {
    if (is_listed(verb)) text += "    '" + verb.name + "') _arguments \\\n" + zsh_options(verb);
  }
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _lockstep ]]; then\n  _lockstep \"$@\"\nelse\n"
         "  compdef _lockstep lockstep\nfi\n";
}

// ---------------------------------------------------------------- fish

constexpr const char* kFishHead =
    R"(# Completes the commands and options of lockstep in fish. Made by: lockstep completion fish
function __lockstep_is --description 'Whether the command line is of this command'
    set -l typed (commandline -opc)
    if test "$typed[2]" = help
        set -e typed[2]
    end
    set -l last (math 1 + (count $argv))
    test "$typed[2..$last]" = "$argv"
end
function __lockstep_at --description 'Whether this word of the command line comes next'
    set -l typed (commandline -opc)
    if test "$typed[2]" = help
        set -e typed[2]
    end
    test (count $typed) = $argv[1]
end
)";

std::string fish_line(const std::string& condition, const std::string& rest) {
  return "complete -c lockstep -n '" + condition + "' " + rest + "\n";
}

std::string for_fish(const std::string& text) { return "'" + escaped(text, "'\\") + "'"; }

std::string fish_options(const Verb& verb, const std::vector<Verb>& verbs) {
  std::string condition = "__lockstep_is " + verb.name;
  for (const Verb& longer : second_of(verb).empty() ? family_of(verb.name, verbs) : std::vector<Verb>{})
    condition += "; and not __lockstep_is " + longer.name;
  std::string text;
  for (const FieldInfo& field : verb.fields()) {
    for (const std::string& name : names_of(field)) {
      std::string value = field.type == "switch" ? "" : field.type == "text" ? " -r" : " -x";
      if (!field.choices.empty()) value += " -a '" + join(field.choices, " ") + "'";
      text += fish_line(condition, "-l " + name + value + " -d " + for_fish(field.help));
    }
  }
  if (verb.starts_program) text += fish_line(condition, "-xa '(__fish_complete_subcommand --fcs-skip=2)'");
  if (!word_choices(verb).empty())
    text += fish_line(condition, "-fa '" + join(word_choices(verb), " ") + "'");
  return text + fish_line(condition, "-s h -l help -d 'show the help'");
}

std::string fish_script(const std::vector<Verb>& verbs) {
  std::string text = kFishHead;
  for (const std::string& first : first_words(verbs)) {
    text += fish_line("__lockstep_at 1", "-fa " + first + " -d " + for_fish(summary_of(first, verbs)));
    for (const Verb& verb : family_of(first, verbs))
      text += fish_line("__lockstep_at 2; and __lockstep_is " + first,
                        "-fa " + second_of(verb) + " -d " + for_fish(verb.summary));
  }
  text += fish_line("__lockstep_at 1", "-fl help -d 'show the help'");
  text += fish_line("__lockstep_at 1", "-fl version -d 'show the version'");
  for (const Verb& verb : verbs) {
    if (is_listed(verb)) text += fish_options(verb, verbs);
  }
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell, const std::vector<Verb>& verbs) {
  if (shell == "bash") return bash_script(verbs);
  if (shell == "zsh") return zsh_script(verbs);
  if (shell == "fish") return fish_script(verbs);
  throw Error(ErrorCode::invalid_option, "there are no completions for \"" + std::string(shell) + "\"",
              "the shells are bash, zsh and fish");
}

int run_completion(const Call& call, Console& console) {
  console.print(completion_script(call.words.front(), builtin_verbs()));
  return 0;
}

}  // namespace lockstep::cli
