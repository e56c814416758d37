#include "lockstep/cli/help.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr int kOptionColumn = 30;
constexpr size_t kLargeFamily = 4;  // commands of two words with the same first one

// A label and its text side by side. After a long label the text starts on the next line.
std::string entry(const std::string& label, const std::string& text, int column, int width) {
  std::string line = "  " + label;
  if (static_cast<int>(line.size()) + 2 > column) {
    line += "\n" + std::string(static_cast<size_t>(column), ' ');
  } else {
    line.resize(static_cast<size_t>(column), ' ');
  }
  return line + wrap(text, width - column, column) + "\n";
}

std::string as_sentence(std::string text) {
  if (text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text + ".";
}

// A line for each command that is not hidden.
std::string entries(const std::vector<Verb>& verbs, int width) {
  int column = 0;
  for (const Verb& verb : verbs) {
    if (!verb.hidden) column = std::max(column, static_cast<int>(verb.name.size() + verb.words.size()) + 5);
  }
  std::string text;
  for (const Verb& verb : verbs) {
    if (!verb.hidden) text += entry(verb.name + " " + verb.words, verb.summary, column, width);
  }
  return text;
}

// One line in place of all commands of a large family, so that the list is one screen.
std::vector<Verb> with_families_as_one(const std::vector<Verb>& verbs) {
  std::map<std::string, std::vector<std::string>> families;
  for (const Verb& verb : verbs) {
    const std::vector<std::string> name = split(verb.name, ' ');
    if (!verb.hidden && name.size() == 2) families[name.front()].push_back(name.back());
  }
  std::vector<Verb> lines;
  std::set<std::string> seen;
  for (const Verb& verb : verbs) {
    const std::string first = split(verb.name, ' ').front();
    const auto family = families.find(first);
    if (verb.name == first || family == families.end() || family->second.size() < kLargeFamily) {
      lines.push_back(verb);
    } else if (seen.insert(first).second) {
      Verb line{};
      line.name = first;
      line.words = "COMMAND";
      line.summary = join(family->second, ", ");
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace

const char* const kWhatItIs =
    "Lockstep trains networks to classify images and sequences, on all cores or GPUs of a machine. The "
    "weights are the same, bit for bit, for any number of workers.";

std::string value_word(const FieldInfo& field) {
  if (field.type == "switch") return "";
  if (field.type == "integer") return " N";
  if (field.type == "number") return " X";
  if (field.type == "integers") return " N,N,...";
  if (field.type == "texts") return " TEXT,...";
  if (field.type == "text") return field.traits.alone == nullptr ? " TEXT" : " [TEXT]";
  return " " + field.type;
}

std::string field_help(const FieldInfo& field) {
  std::string help = field.help;
  if (!field.alias().empty()) help += "; also --" + field.alias();
  if (field.type != "switch" && !field.default_text.empty()) help += " (default: " + field.default_text + ")";
  if (field.type == "switch" && field.default_text == "true")
    help += " (on by default; --" + field.name + "=false turns it off)";
  return help;
}

std::string verb_text(const Verb& verb) {
  return as_sentence(verb.summary) + (verb.details.empty() ? "" : " ") + verb.details;
}

std::string usage_line(const Verb& verb) {
  const std::string words = verb.words.empty() ? "" : " " + verb.words;
  const std::string options = verb.fields().empty() ? "" : " [options]";
  // The options after a program are the program's.
  return "usage: lockstep " + verb.name + (verb.starts_program ? options + words : words + options) +
         (verb.searches ? " [-- COMMAND...]" : "");
}

std::string wrap(const std::string& text, int width, int indent) {
  std::string lines;
  int column = 0;
  for (const std::string& word : split(text, ' ')) {
    const int length = width_of(word);
    if (column > 0 && column + 1 + length > width) {
      lines += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = 0;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += length;
  }
  return lines;
}

std::string sentence(const std::string& text, int width) {
  return (width > 0 ? wrap(text, width, 0) : text) + "\n";
}

std::string program_help(const std::vector<Verb>& verbs, int width) {
  std::string text = wrap(kWhatItIs, width, 0);
  text += "\n\nusage: lockstep COMMAND ...\n\n" + entries(with_families_as_one(verbs), width);
  text += "\nexample:\n  lockstep train FOLDER\n\n";
  text += wrap(
      "FOLDER contains a folder of images for each class. All options have defaults; lockstep COMMAND --help "
      "lists them. The first word of several commands lists these, as in lockstep job --help.",
      width, 0);
  return text + "\n";
}

std::string family_help(const std::vector<Verb>& verbs, const std::string& family, int width) {
  std::vector<Verb> members;
  std::copy_if(verbs.begin(), verbs.end(), std::back_inserter(members),
               [&](const Verb& verb) { return verb.name.starts_with(family + " "); });
  const std::string list = entries(members, width);
  return list.empty() ? "" : "usage: lockstep " + family + " COMMAND ...\n\n" + list;
}

std::string verb_help(const Verb& verb, int width) {
  std::string text = usage_line(verb) + "\n\n" + wrap(verb_text(verb), width, 0) + "\n";
  std::string section;
  for (const FieldInfo& field : verb.fields()) {
    if (field.section != section) text += "\n" + wrap(field.section + ":", width, 0) + "\n";
    section = field.section;
    text += entry("--" + field.name + value_word(field), field_help(field), kOptionColumn, width);
  }
  return text;
}

}  // namespace lockstep::cli
