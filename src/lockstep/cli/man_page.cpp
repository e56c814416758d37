#include "lockstep/cli/man_page.h"

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/cli/completion.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

constexpr const char* kFilesAndStatuses = R"(.SH FILES
.TP
.I runs/
the runs, below the working folder
.TP
.I ~/.cache/lockstep/images
decoded images, and remote archives
.TP
.I ~/.cache/lockstep/runs
what
.B lockstep runs
has read of runs that are over
.PP
The program writes nothing else into your home folder, and you may remove these caches at any time.
.SH EXIT STATUS
0: success; 1: an error, or a result that a command was asked to check; 2: a command line that is wrong;
130: stopped by Ctrl\-C.
.SH SEE ALSO
)";

// Plain text: man would change what stands in backslashes and hyphens, and obey a point at the head of a
// line.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return result + "\"";
}

std::string dashed(const std::string& name) { return "lockstep-" + join(split(name, ' '), "-"); }

std::string head(const std::string& title, const std::string& summary) {
  return ".TH " + quoted(roff(title)) + " 1 \"\" " + quoted("Lockstep " + std::string(version())) +
         " \"Lockstep\"\n.ad l\n.nh\n.SH NAME\n" + roff(title) + " \\- " + roff(summary) + "\n";
}

std::string reference(const std::string& page) { return ".BR " + roff(page) + " (1)"; }

}  // namespace

std::string page_name(const Verb& verb) { return dashed(verb.name) + ".1"; }

std::string program_page(const std::vector<Verb>& verbs) {
  std::string text = head("lockstep", "trains networks to classify images and sequences");
  text += ".SH SYNOPSIS\n.B lockstep\n.I COMMAND\n[words] [options]\n.SH DESCRIPTION\n" + roff(kWhatItIs) +
          "\n.PP\nExample:\n.PP\n.RS 4\nlockstep train photos\n.RE\n.PP\n"
          "The folder photos contains a folder of images for each class.\n.SH COMMANDS\n";
  std::vector<std::string> references;
  for (const Verb& verb : verbs) {
    if (verb.hidden) continue;
    text += ".TP\n\\fBlockstep " + roff(verb.name) + "\\fR " + roff(verb.words) + "\n" + roff(verb.summary) +
            "\n";
    references.push_back(reference(dashed(verb.name)));
  }
  text += ".TP\n\\fBlockstep \\-\\-version\\fR\nthe version, and what the program was built from\n";
  return text + kFilesAndStatuses + join(references, " ,\n") + "\n";
}

std::string verb_page(const Verb& verb) {
  std::string text = head(dashed(verb.name), verb.summary);
  text += ".SH SYNOPSIS\n" + roff(usage_line(verb).substr(std::string("usage: ").size())) +
          "\n.SH DESCRIPTION\n" + roff(verb_text(verb)) + "\n";
  if (!verb.fields().empty()) text += ".SH OPTIONS\n";
  std::string section;
  for (const FieldInfo& field : verb.fields()) {
    if (field.section != section) text += ".SS " + quoted(roff(field.section)) + "\n";
    section = field.section;
    text += ".TP\n\\fB\\-\\-" + roff(field.name) + "\\fR\\fI" + roff(value_word(field)) + "\\fR\n" +
            roff(field_help(field)) + "\n";
  }
  return text + ".SH SEE ALSO\n" + reference("lockstep") + "\n";
}

int run_shell_files(const Call& call, Console&) {
  const std::filesystem::path folder = call.words.front();
  const std::vector<Verb>& verbs = builtin_verbs();
  const auto write = [&](const std::filesystem::path& name, const std::string& text) {
    make_folders((folder / name).parent_path());
    write_file_atomic(folder / name, text);
  };
  write("man/man1/lockstep.1", program_page(verbs));
  for (const Verb& verb : verbs) {
    if (!verb.hidden) write("man/man1/" + page_name(verb), verb_page(verb));
  }
  write("bash-completion/completions/lockstep", completion_script("bash", verbs));
  write("zsh/site-functions/_lockstep", completion_script("zsh", verbs));
  write("fish/vendor_completions.d/lockstep.fish", completion_script("fish", verbs));
  return 0;
}

}  // namespace lockstep::cli
