#include "lockstep/cli/command_words.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

bool is_our_verb(const std::string& word) {
  const std::vector<Verb>& verbs = builtin_verbs();
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const Verb& verb) { return !verb.hidden && split(verb.name, ' ').front() == word; });
}

bool is_lockstep(const std::string& word) { return std::filesystem::path(word).filename() == "lockstep"; }

// The value of "--name value" or "--name=value"; the last one counts.
std::string option_in(const std::vector<std::string>& words, const std::string& name) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(name + "=")) value = words[i].substr(name.size() + 1);
  }
  return value;
}

int64_t number_in(const std::vector<std::string>& words, const std::string& name) {
  return std::max<int64_t>(0, parse_number<int64_t>(option_in(words, name)).value_or(0));
}

}  // namespace

CommandWords read_command_words(const std::vector<std::string>& words, const std::string& program) {
  CommandWords command{
      .words = words, .name = std::filesystem::path(words.front()).filename().string(), .output = {}};
  if (is_our_verb(words.front())) command.words.insert(command.words.begin(), program);
  if (!is_lockstep(command.words.front()) || command.words.size() < 2) return command;
  command.is_ours = true;
  command.words.front() = program;
  command.name = command.words[1];
  const auto train = std::find(command.words.begin() + 1, command.words.end(), "train");
  const bool is_first = train == command.words.begin() + 1;
  const bool is_run = command.words[1] == "run" && train != command.words.end() && is_lockstep(*(train - 1));
  command.trains = train != command.words.end() && (is_first || is_run);
  if (!command.trains) return command;
  command.name = "train";
  command.output = option_in(command.words, "--output");
  command.workers = number_in(command.words, "--workers");
  if (is_run)
    command.workers =
        std::max<int64_t>({1, number_in(command.words, "--ranks"), number_in(command.words, "-n")});
  return command;
}

std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool is_word = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'' || c == '"') {
      const size_t end = line.find(c, i + 1);
      if (end == std::string::npos)
        throw Error(ErrorCode::invalid_option, "a quote is not closed", "close it, or put a \\ before it");
      word += line.substr(i + 1, end - i - 1);
      is_word = true;
      i = end;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      is_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (is_word) words.push_back(word);
      word.clear();
      is_word = false;
    } else if (c == '#' && !is_word) {
      break;
    } else if (std::string("|&;<>()$`*?[").find(c) != std::string::npos) {
      throw Error(ErrorCode::invalid_option,
                  "a job is started without a shell, which would read " + quote(std::string(1, c)),
                  "write sh -c 'COMMAND', or put the sign in quotes");
    } else {
      word += c;
      is_word = true;
    }
  }
  if (is_word) words.push_back(word);
  return words;
}

}  // namespace lockstep::cli
