#include "lockstep/cli/sweep_checks.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/options/image_size.h"

namespace lockstep::cli {
namespace {

using sweep::Parameter;
using sweep::StopRule;

// Of the table that is printed, and of the files of `sweep export`.
constexpr std::array kColumns{"trial", "state",   "result",       "steps", "total_steps",
                              "time",  "seconds", "weights_hash", "error", "note"};

// Options of a trial that the sweep sets itself.
constexpr std::array kSetBySweep{"output", "resume", "pause-after-step", "workers"};

bool is_searched(const sweep::SweepSpec& spec, const std::string& name) {
  const std::vector<Parameter>& all = spec.space.parameters();
  return std::any_of(all.begin(), all.end(), [&](const Parameter& one) { return one.name == name; });
}

bool may_be(const sweep::SweepSpec& spec, const std::string& name, const std::string& value) {
  const std::vector<Parameter>& all = spec.space.parameters();
  return std::any_of(all.begin(), all.end(), [&](const Parameter& one) {
    return one.name == name && std::find(one.choices.begin(), one.choices.end(), value) != one.choices.end();
  });
}

std::string stop_rule_text(const sweep::SweepSpec& spec) {
  return "--stop-rule " + field_text(spec.options, "stop-rule");
}

// The bounds of a range may be whole numbers where what lies between is none.
void check_between(const FieldInfo& field, const Parameter& parameter) {
  constexpr double kSomewhere = 0.61803;
  if (parameter.kind != sweep::ParameterKind::real || parameter.is_single()) return;
  try {
    field.check(text_of(parameter, parameter.low + kSomewhere * (parameter.high - parameter.low)));
  } catch (const Error& error) {
    throw Error(
        ErrorCode::invalid_option,
        "--" + parameter.name + " is searched among real numbers, and train refuses them: " + error.message(),
        "write both bounds without a point and without an exponent, as in 16..1000");
  }
}

void check_parameters(const sweep::SweepSpec& spec) {
  const std::vector<FieldInfo> fields = train_fields();
  std::vector<std::string> names;
  for (const FieldInfo& field : fields) names.push_back(field.name);
  for (const FieldInfo& field : sweep_fields()) names.push_back(field.name);
  for (const Parameter& parameter : spec.space.parameters()) {
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& one) {
      return one.is_option("--" + parameter.name);
    });
    if (field == fields.end())
      throw Error(ErrorCode::invalid_option, "train has no option --" + parameter.name + " to search",
                  did_you_mean(parameter.name, names));
    for (const std::string& choice : parameter.choices) field->check(choice);
    if (!parameter.is_number()) continue;
    field->check(text_of(parameter, parameter.low));
    field->check(text_of(parameter, parameter.high));
    check_between(*field, parameter);
  }
}

// Sizes are texts, of which train knows only later whether they are any.
void check_sizes(const sweep::SweepSpec& spec) {
  for (const Parameter& parameter : spec.space.parameters()) {
    const std::string option = parameter.name == "resize-to" ? "resize-to" : "image-size";
    if (parameter.name != option) continue;
    if (parameter.is_number()) (void)train::parse_size(option, text_of(parameter, parameter.low));
    for (const std::string& choice : parameter.choices) {
      if (!choice.empty() && choice != "auto") (void)train::parse_size(option, choice);
    }
  }
}

void check_metric(const sweep::SweepSpec& spec, const AskedOptions& asked) {
  const std::vector<std::string> known{"best_accuracy", "accuracy", "loss", "test_accuracy", "result"};
  const std::string metric = spec.metric();
  if (std::find(known.begin(), known.end(), metric) == known.end())
    throw Error(ErrorCode::invalid_option, "train has no metric " + quote(metric),
                nearest(metric, known).empty() ? "use best_accuracy, accuracy, loss or test_accuracy"
                                               : did_you_mean(metric, known));
  if (metric != "test_accuracy") return;
  if (spec.options.stop_rule != StopRule::none)
    throw Error(ErrorCode::invalid_option,
                "--metric test_accuracy cannot be used with " + stop_rule_text(spec),
                "a trial that is paused at a rung has not been tested; use best_accuracy, accuracy or loss");
  if (asked.options.test.empty() && !is_searched(spec, "test"))
    throw Error(ErrorCode::invalid_option, "--metric test_accuracy needs test data",
                "name its folder with --test behind train");
}

// A trial is judged at a rung by its validations until then.
void check_rungs(const sweep::SweepSpec& spec, const AskedOptions& asked) {
  if (spec.options.stop_rule == StopRule::none) return;
  if (is_searched(spec, "validate-every"))
    throw Error(ErrorCode::invalid_option,
                "parameter \"validate-every\" cannot be searched with " + stop_rule_text(spec),
                "a trial is judged by its validation at the first rung, which --first-rung sets");
  const int64_t every = asked.options.validate_every;
  if (every > spec.options.first_rung)
    throw Error(ErrorCode::invalid_option,
                "--validate-every " + std::to_string(every) + " is after the first rung, at step " +
                    std::to_string(spec.options.first_rung),
                "a trial that was not validated cannot be judged there: leave --validate-every out, or give "
                "at most the steps of --first-rung");
}

// A value of the command would be replaced by the one that is searched.
void check_command(const sweep::SweepSpec& spec, const Call& call, const AskedOptions& asked) {
  for (const FieldInfo& field : train_fields()) {
    if (!call.text_of(field.name)) continue;
    for (const Parameter& parameter : spec.space.parameters()) {
      if (field.is_option("--" + parameter.name))
        throw Error(ErrorCode::invalid_option, "--" + parameter.name + " is both searched and given after --",
                    "leave one of them out");
    }
  }
  const train::Options& options = asked.options;
  if (options.resume || options.pause_after_step > 0)  // the command line has neither
    throw Error(ErrorCode::invalid_option,
                std::string("the file of --config cannot have ") +
                    (options.resume ? "resume" : "pause-after-step") + " in a sweep",
                "the sweep sets it for each trial");
  if (options.validation_folds > 0 && options.fold == 0 && !is_searched(spec, "fold"))
    throw Error(ErrorCode::invalid_option,
                "a trial trains one network, and --validation-folds " +
                    std::to_string(options.validation_folds) + " trains one for each fold",
                "search the folds: --param fold=1.." + std::to_string(options.validation_folds));
}

// Whether a name is that of a time or a speed: one of its words is.
bool is_of_clock(const std::string& metric) {
  constexpr std::array kWords{"time",    "runtime",    "walltime", "seconds", "second",   "secs",
                              "sec",     "ms",         "minutes",  "hours",   "duration", "elapsed",
                              "latency", "throughput", "speed",    "fps"};
  std::string word;
  for (const char c : lower(metric) + " ") {
    if ('a' <= c && c <= 'z') {
      word += c;
    } else {
      if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
      word.clear();
    }
  }
  return false;
}

// Exchanges with which the table depends on the workers or on kills. bf16 and fp16 are none of them: a trial
// is one rank, whose sum is rounded once, whatever the number of its workers.
void add_exchanges(const sweep::SweepSpec& spec, const train::Options& options,
                   std::vector<std::string>& reasons) {
  const bool averages =
      options.exchange == train::ExchangeKind::average || may_be(spec, "exchange", "average");
  if (averages && options.shards == 0 && !is_searched(spec, "shards"))  // a replica for each worker
    reasons.emplace_back("--exchange average without --shards");
  if (options.exchange == train::ExchangeKind::powersgd || may_be(spec, "exchange", "powersgd"))
    reasons.emplace_back("--exchange powersgd");  // a trial that goes on begins without the errors left out
  if (options.scale_with_workers != train::ScaleWithWorkers::none || is_searched(spec, "scale-with-workers"))
    reasons.emplace_back("--scale-with-workers");
  if (options.sample_order == data::SampleOrder::distributed_sampler ||
      may_be(spec, "sample-order", "distributed-sampler"))
    reasons.emplace_back("--sample-order distributed-sampler");
}

bool has_place(const sweep::SweepSpec& spec, const Parameter& parameter) {
  return std::any_of(spec.command.begin(), spec.command.end(), [&](const std::string& word) {
    return word.find("{" + parameter.name + "}") != std::string::npos;
  });
}

// A table with two columns of one name could not be read.
void check_names(const sweep::SweepSpec& spec) {
  for (const Parameter& parameter : spec.space.parameters()) {
    const bool is_metric = parameter.name == spec.metric();
    if (!is_metric && std::find(kColumns.begin(), kColumns.end(), parameter.name) == kColumns.end()) continue;
    throw Error(ErrorCode::invalid_option,
                "parameter " + quote(parameter.name) + " has the name of " +
                    (is_metric ? "the sweep's metric" : "a column of the sweep's table"),
                "choose another name for it, such as my-" + parameter.name + ", and write {my-" +
                    parameter.name + "} in the command where its value belongs");
  }
}

// Any option of another program may be searched. One that has a single value and almost the name of an option
// of the sweep was meant to be that.
void check_misspelled(const sweep::SweepSpec& spec, const std::vector<std::string>& as_options) {
  std::vector<std::string> names;
  for (const FieldInfo& field : sweep_fields()) names.push_back(field.name);
  for (const Parameter& parameter : spec.space.parameters()) {
    const bool may_be_one = std::ranges::find(as_options, parameter.name) != as_options.end() &&
                            parameter.is_single() && parameter.when.empty() && !has_place(spec, parameter);
    const std::string meant = may_be_one ? nearest(parameter.name, names) : "";
    if (meant.empty() || meant.find(parameter.name) != std::string::npos) continue;
    throw Error(ErrorCode::invalid_option, "the sweep has no option --" + parameter.name,
                "did you mean --" + meant + "? To give it to the program, write it after --");
  }
}

void check_placeholders(const sweep::SweepSpec& spec) {
  for (const Parameter& parameter : spec.space.parameters()) {
    const std::string place = "{" + parameter.name + "}";
    if (has_place(spec, parameter) && !parameter.when.empty())
      throw Error(ErrorCode::invalid_option,
                  "parameter " + quote(parameter.name) + " counts only for some values of " +
                      quote(parameter.when) + ", so " + place + " has no value in other trials",
                  "use {parameters}, a file with the values that count, or search it without :when");
  }
}

}  // namespace

Call call_of_train(const sweep::SweepSpec& spec) {
  Call call = read_train_words({spec.command.begin() + 1, spec.command.end()});
  for (Setting& setting : call.settings) {
    if (setting.name == "config") setting.text = path_of_trial(spec, setting.text);
  }
  return call;
}

std::string path_of_trial(const sweep::SweepSpec& spec, const std::string& path) {
  std::error_code none;
  if (spec.working_folder.empty() || std::filesystem::equivalent(spec.working_folder, ".", none)) return path;
  return (std::filesystem::path(spec.working_folder) / path).string();
}

bool depends_on_workers(const sweep::SweepSpec& spec) {
  if (!spec.trains()) return false;
  for (const char* name : {"exchange", "scale-with-workers", "sample-order"}) {
    if (is_searched(spec, name)) return true;
  }
  train::Options options;
  try {
    options = asked_options(call_of_train(spec)).options;
  } catch (const Error&) {
    return true;  // the file of --config is gone
  }
  return options.exchange == train::ExchangeKind::average ||
         options.scale_with_workers != train::ScaleWithWorkers::none ||
         options.sample_order != data::SampleOrder::lockstep;
}

bool may_move_workers(const sweep::SweepSpec& spec) {
  const std::vector<std::string> reasons = reasons_for_another_table(spec);
  return !depends_on_workers(spec) && std::ranges::find(reasons, "--exchange powersgd") == reasons.end();
}

std::vector<std::string> reasons_for_another_table(const sweep::SweepSpec& spec) {
  std::vector<std::string> reasons;
  if (spec.options.free) reasons.emplace_back("--free");
  if (!spec.trains()) {
    if (is_of_clock(spec.metric())) reasons.push_back("--metric " + spec.metric());
    return reasons;
  }
  AskedOptions asked;
  try {
    asked = asked_options(call_of_train(spec));
  } catch (const Error&) {  // the file of --config is gone, which the trials say
  }
  if (asked.options.max_time > 0 || is_searched(spec, "max-time")) reasons.emplace_back("--max-time");
  if (asked.options.precision == train::Precision::auto_ || may_be(spec, "precision", "auto"))
    reasons.emplace_back("--precision auto");
  add_exchanges(spec, asked.options, reasons);
  return reasons;
}

std::optional<int64_t> points_of(const sweep::Space& space) {
  constexpr double kMost = 1e6;  // of --count
  double points = 1;
  for (const Parameter& parameter : space.parameters()) {
    if (parameter.kind == sweep::ParameterKind::real && !parameter.is_single()) return std::nullopt;
    points *= parameter.is_number() ? parameter.high - parameter.low + 1
                                    : static_cast<double>(parameter.choices.size());
    if (points > kMost) return std::nullopt;
  }
  return static_cast<int64_t>(points);
}

int64_t memory_of(const sweep::SweepSpec& spec) {
  if (spec.options.memory.empty()) return 0;
  const auto bytes = parse_bytes(spec.options.memory);
  if (!bytes)
    throw Error(ErrorCode::invalid_option, "--memory cannot be " + quote(spec.options.memory),
                "give a size such as 4G or 500M");
  return *bytes;
}

void check_memory(const sweep::SweepSpec& spec) {
  if (spec.options.memory.empty() || (spec.options.profile.empty() && spec.on_threads())) return;
  throw Error(
      ErrorCode::invalid_option, "--memory is only for trials on threads of one process",
      spec.options.profile.empty()
          ? "leave it out; --trials says how many trials are trained at once"
          : "leave it out; the profile says how much memory a job may use, and --trials how many there "
            "are");
}

void check_sweep(const sweep::SweepSpec& spec) {
  if (spec.command.empty())
    throw Error(ErrorCode::invalid_option, "the sweep has no command",
                "write it after --, as in lockstep sweep --learning-rate 0.001..0.1:log -- train FOLDER");
  (void)memory_of(spec);
  std::error_code none;
  if (!spec.working_folder.empty() && !std::filesystem::is_directory(spec.working_folder, none))
    throw Error(ErrorCode::not_found,
                "the working folder of the sweep's trials, " + quote(spec.working_folder) + ", is not there",
                "make it again, or name another one as \"working_folder\" in the sweep's sweep.json");
  if (spec.options.free && !spec.options.profile.empty())
    throw Error(ErrorCode::invalid_option, "--free cannot be used with --profile",
                "each job decides what is next, and they agree because the search does not depend on time");
  if (!spec.trains()) {
    if (spec.options.trials_as == sweep::TrialsAs::threads)
      throw Error(ErrorCode::invalid_option, "--trials-as threads is only for train",
                  "another program is a process for each trial");
    return;
  }
  if (std::find(spec.command.begin(), spec.command.end(), "--") != spec.command.end())
    throw Error(ErrorCode::invalid_option, "the command of a sweep cannot have -- after train",
                "leave it out; the sweep adds the options of each trial at the end, where train would take "
                "them for folders");
  for (const std::string name : kSetBySweep) {
    const auto is_it = [&](const std::string& word) {
      return word == "--" + name || word.starts_with("--" + name + "=");
    };
    if (std::any_of(spec.command.begin(), spec.command.end(), is_it))
      throw Error(ErrorCode::invalid_option, "the command of a sweep cannot have --" + name,
                  "the sweep sets it for each trial");
  }
  check_parameters(spec);
}

void check_new_sweep(const sweep::SweepSpec& spec, const std::vector<std::string>& as_options) {
  check_memory(spec);
  check_names(spec);
  if (!spec.trains()) {
    if (spec.options.stop_rule != StopRule::none)
      throw Error(ErrorCode::invalid_option, stop_rule_text(spec) + " is only for train",
                  "another program cannot be paused at a rung");
    check_misspelled(spec, as_options);
    check_placeholders(spec);
    return;
  }
  for (const std::string name : kSetBySweep) {
    if (is_searched(spec, name))
      throw Error(ErrorCode::invalid_option, "parameter " + quote(name) + " cannot be searched",
                  "the sweep sets --" + name + " for each trial");
  }
  const Call call = call_of_train(spec);
  check_places(call);
  const AskedOptions asked = asked_options(call);
  check_command(spec, call, asked);
  check_sizes(spec);
  check_metric(spec, asked);
  check_rungs(spec, asked);
}

}  // namespace lockstep::cli
