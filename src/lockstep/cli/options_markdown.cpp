#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::cli {
namespace {

constexpr const char* kHead = R"(# Options of training

Every option of `lockstep train`, with its default, what it affects and what it means. `lockstep plan`
takes the same options except those of the last section. This page is the output of
`lockstep options-markdown > docs/options.md`; a test compares the two.

Write an option as `--name value` or `--name=value`, and a switch as `--name` or `--name=false`.
`--config FILE` reads options with the same names from a JSON file, for example
`{"max-epochs": 5, "nesterov": true, "devices": [0, 1]}`; the command line overrides the file.
`--lr-drop-factor` or `--lr-drop-period` without `--lr-schedule` means `--lr-schedule piecewise`.

## What an option affects, and what may change at a resume

- *weights*: the weights that the run ends with, or which of them are the best
- *place*: where the run computes and keeps its data, and how fast
- *end*: when the run ends
- *record*: what is printed, saved or measured

`--resume` takes the options of the run that it continues. Only options that do not affect the weights
may change then: )";

std::string cell(std::string text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string affected(Affects affects) {
  switch (affects) {
    case Affects::weights:
      return "weights";
    case Affects::place:
      return "place";
    case Affects::end:
      return "end";
    case Affects::record:
      return "record";
    case Affects::unstated:
      return "";
  }
  return "";
}

std::string row(const FieldInfo& field) {
  const std::string type = field.choices.empty() ? cell(field.type) : code(join(field.choices, "` `"));
  return "| `--" + field.name + "` | " + type + " | " + code(cell(field.default_text)) + " | " +
         affected(field.traits.affects) + " | " + cell(field.help) +
         (field.alias().empty() ? "" : "; also `--" + field.alias() + "`") + " |\n";
}

std::string resume_paragraph() {
  std::vector<std::string> names;
  for (const std::string& name : train::options_free_at_resume()) {
    if (name != "output" && name != "resume") names.push_back("`--" + name + "`");
  }
  return join(names, ", ") +
         ".\n`--on-out-of-memory` changes the result of a step only after memory has run out. Any other "
         "option must be\nomitted or keep its value.\n";
}

}  // namespace

int run_options_markdown(const Call&, Console& console) {
  std::string text = kHead + resume_paragraph();
  std::string section;
  for (const FieldInfo& field : training_fields() + fields_of<RankSettings>() + fields_of<ReportSwitch>()) {
    if (field.section != section)
      text += "\n## " + field.section +
              "\n\n| option | type | default | affects | meaning |\n|---|---|---|---|---|\n";
    section = field.section;
    text += row(field);
  }
  console.print(text);
  return 0;
}

}  // namespace lockstep::cli
