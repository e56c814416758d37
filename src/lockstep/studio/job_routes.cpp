#include "lockstep/studio/job_routes.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/form.h"

namespace lockstep::studio {
namespace {

constexpr auto kLimit = std::chrono::seconds(30);
constexpr size_t kMostDiary = 200 << 10;

// An id, and nothing that a command line could read as an option or a path.
const std::string& checked(const std::string& job) {
  const bool is_id = !job.empty() && job.size() < 20 &&
                     std::all_of(job.begin(), job.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_id) throw Error(ErrorCode::invalid_option, quote(job) + " is no number of a job");
  return job;
}

}  // namespace

// Its page asks often, and a login node may be slow to answer.
std::string list_of_jobs(Commands& commands) {
  return commands.output_of({"jobs", "--json", "--here"}, kLimit);
}

std::string about_job(const std::string& job, Commands& commands) {
  return commands.output_of({"job", "show", checked(job), "--json"}, kLimit);
}

std::string diary_of(const std::string& job, int64_t rank, Commands& commands) {
  std::vector<std::string> words{"job", "diary", checked(job)};
  if (rank >= 0) words.push_back("--rank=" + std::to_string(rank));
  std::string text = commands.output_of(words, kLimit, LongOutput::only_end);
  if (text.size() > kMostDiary) text.erase(0, text.find('\n', text.size() - kMostDiary) + 1);
  return text;
}

std::vector<std::string> job_words(const std::string& command, const Json& body) {
  constexpr std::array kKnown{"job cancel", "job requeue", "job delete", "job fetch"};
  if (std::find(kKnown.begin(), kKnown.end(), command) == kKnown.end())
    throw Error(ErrorCode::invalid_option, "studio does not start the command " + quote(command));
  std::vector<std::string> words = split(command, ' ');
  words.push_back(checked(text_in(body, "job")));
  if (command == "job fetch") words.push_back(as_argument(text_in(body, "word")));
  return words;
}

}  // namespace lockstep::studio
