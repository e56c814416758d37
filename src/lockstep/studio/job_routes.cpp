#include "lockstep/studio/job_routes.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/form.h"
#include "lockstep/studio/message.h"

namespace lockstep::studio {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);      // a login node may be asked
constexpr auto kAllLimit = std::chrono::seconds(300);  // many login nodes are asked, one after the other
constexpr size_t kMostDiary = 200 << 10;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_in_profile_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-' || c == '.';
}

// An id, and nothing that a command line could read as an option or a path.
const std::string& checked(const std::string& job) {
  const size_t sign = job.find(':');
  const size_t begin = sign == std::string::npos ? 0 : sign + 1;
  const std::string_view profile = std::string_view(job).substr(0, begin == 0 ? 0 : sign);
  const std::string_view number = std::string_view(job).substr(begin);
  const bool is_id = !number.empty() && number.size() < 20 &&
                     std::all_of(number.begin(), number.end(), is_digit) &&
                     (begin == 0 || !profile.empty()) && !profile.starts_with('-') &&
                     std::all_of(profile.begin(), profile.end(), is_in_profile_name);
  if (!is_id) throw Error(ErrorCode::invalid_option, quote(job) + " is no number of a job");
  return job;
}

}  // namespace

// Its page asks often, and a login node may be slow to answer.
std::string list_of_jobs(Commands& commands) {
  return commands.output_of({"jobs", "--json", "--here"}, kLimit);
}

std::string all_jobs(Commands& commands) {
  const Said said = commands.said_by({"jobs", "--json"}, kAllLimit);
  return json_response({{"jobs", parse_json(said.output)}, {"warnings", said.errors}}).body;
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
