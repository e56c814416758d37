#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::cli {
namespace {

constexpr const char* kHead = R"(# Options of training

Written by the program (`lockstep options-markdown > docs/options.md`); a test compares. `lockstep train` and (but for the last
section) `lockstep plan` take these options as `--name value` or `--name=value`, a switch as `--name` or `--name=false`. `--config FILE` takes the same names from a JSON file,
for example `{"max-epochs": 5, "nesterov": true, "devices": [0, 1]}`; the command line wins over the file. `--lr-drop-factor` or
`--lr-drop-period` without `--lr-schedule` means `--lr-schedule piecewise`.

## What may change at resume

`--resume` takes the options of the run that it goes on with. )";

std::string cell(std::string text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string row(const FieldInfo& field) {
  const std::string type = field.choices.empty() ? cell(field.type) : code(join(field.choices, "` `"));
  return "| `--" + field.name + "` | " + type + " | " + code(cell(field.default_text)) + " | " +
         cell(field.help) + (field.alias().empty() ? "" : "; also `--" + field.alias() + "`") + " |\n";
}

std::string resume_paragraph() {
  std::vector<std::string> names;
  for (const std::string& name : train::options_free_at_resume()) {
    if (name != "output" && name != "resume") names.push_back("`--" + name + "`");
  }
  return "These options may change at a resume, because they do not change the result of a step "
         "(`--on-out-of-memory`: until "
         "memory runs out): " +
         join(names, ", ") + ". Any other option must be omitted or keep its value.\n";
}

}  // namespace

int run_options_markdown(const Call&, Console& console) {
  std::string text = kHead + resume_paragraph();
  std::string section;
  for (const FieldInfo& field : training_fields() + fields_of<RankSettings>() + fields_of<ReportSwitch>()) {
    if (field.section != section)
      text += "\n## " + field.section + "\n\n| option | type | default | meaning |\n|---|---|---|---|\n";
    section = field.section;
    text += row(field);
  }
  console.print(text);
  return 0;
}

}  // namespace lockstep::cli
