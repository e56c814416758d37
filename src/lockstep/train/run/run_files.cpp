#include "lockstep/train/run/run_files.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sequences.h"

namespace lockstep::train {
namespace {

constexpr int64_t kFormat = 2;  // in format 1 the plan is one flat object
constexpr int64_t kMostManifestBytes = 64 << 20;
// Sums and products of such numbers stay far from the greatest int64_t.
constexpr int64_t kMostAmount = int64_t{1} << 40;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" is damaged: " + reason,
              "put back a copy of it, or start a new run with another --output");
}

Json parsed(const std::filesystem::path& path) {
  try {
    return parse_json(read_file(path, kMostManifestBytes));
  } catch (const JsonError& error) {
    damaged(path, error.what());
  }
}

bool is_image(int64_t height, int64_t width) {
  return height >= 1 && width >= 1 && height <= data::kMostPixels / width;
}

// These numbers decide how much memory is allocated and filled.
void check_plan(const Plan& plan, const std::filesystem::path& path) {
  const nn::NetworkInput& input = plan.network.input;
  const std::string size =
      std::to_string(input.channels) + "x" + std::to_string(input.height) + "x" + std::to_string(input.width);
  if (const int64_t steps = input.time_steps; steps != 0) {
    const bool good = input.height == 1 && input.width == 1 && input.channels >= 1 && steps >= 1 &&
                      input.channels <= data::kMostSequenceNumbers / steps;
    if (!good)
      damaged(path, "its plan has samples of " + size + " (channels, height, width) with " +
                        std::to_string(steps) + " time steps, which no sequence can have");
  } else if ((input.channels != 1 && input.channels != 3) || !is_image(input.height, input.width)) {
    damaged(path, "its plan has samples of " + size + " (channels, height, width), which no image can have");
  }
  const std::vector<int64_t>& larger = plan.data.resize_to;
  if (!larger.empty() && (larger.size() != 2 || !is_image(larger[0], larger[1])))
    damaged(path, "\"resize_to\" of its plan is neither empty nor the height and width of an image");
  for (const auto& [name, amount] :
       {std::pair("mini_batch_size", plan.step.mini_batch_size), std::pair("shards", plan.step.shards)}) {
    if (amount < 1 || amount > kMostAmount)
      damaged(path, std::string("\"") + name + "\" of its plan is " + std::to_string(amount));
  }
}

// These have no defaults: a plan without one of them is damaged.
void check_keys(const Json& plan, const std::filesystem::path& path) {
  for (const char* key : {"channels", "height", "width", "classes", "mini_batch_size", "shards"}) {
    const bool found = plan.contains(key) || std::any_of(plan.begin(), plan.end(), [&](const Json& part) {
                         return part.is_object() && part.contains(key);
                       });
    if (!found) damaged(path, std::string("its plan has no \"") + key + "\"");
  }
}

// No value of the plan is used before it is checked.
Plan read_checked_plan(const Json& manifest, const Options& options, const std::filesystem::path& path) {
  const Json& plan = manifest["plan"];
  if (!plan.is_object()) damaged(path, "its plan is not a JSON object");
  const Json format = manifest.value("format", Json(1));
  if (!format.is_number_integer() || format.get<int64_t>() < 1 || format.get<int64_t>() > kFormat)
    damaged(path,
            "its format is " + format.dump() + ", and this build reads 1 to " + std::to_string(kFormat));
  check_keys(plan, path);
  Plan read;
  try {
    read = format.get<int64_t>() == 1 ? read_flat_plan(plan, options) : read_plan(plan);
  } catch (const Error& error) {
    damaged(path, "its plan: " + error.message());
  }
  check_plan(read, path);
  return read;
}

}  // namespace

void write_manifest(const std::filesystem::path& path, const Options& options, const Prepared& prepared) {
  const Json manifest{{"format", kFormat},
                      {"options", lockstep::to_json(options)},
                      {"plan", lockstep::to_json(prepared.plan)},
                      {"network", prepared.network.spec()}};
  write_file_atomic(path, manifest.dump(1) + "\n");
}

std::optional<Manifest> read_manifest(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json json = parsed(path);
  if (!json.is_object() || !json.contains("options") || !json.contains("plan") || !json.contains("network")) {
    damaged(path, "it does not hold the options of a run");
  }
  Manifest manifest{{}, {}, json["network"]};
  read_json(json["options"], manifest.options, "\"" + path.string() + "\"");
  // A run that began before there were recipes.
  if (!json["options"].contains("recipe")) manifest.options.recipe = Recipe::plain;
  manifest.plan = read_checked_plan(json, manifest.options, path);
  return manifest;
}

std::vector<std::string> options_free_at_resume() {
  std::vector<std::string> names;
  for (const FieldInfo& field : fields_of<Options>()) {
    if (field.traits.affects != Affects::weights) names.push_back(field.name);
  }
  return names;
}

namespace {

// What to do about an option that must not change.
std::string fixed_hint(const std::string& name, const Options& asked) {
  const bool longer = name == "max-steps" || name == "max-epochs";
  return "leave it out, or start a new run with another --output" +
         (longer ? ", from these weights once they exist: --weights " +
                       shell_word((std::filesystem::path(asked.output) / "model.safetensors").string())
                 : std::string()) +
         "; docs/run-folder.md, \"Resume\", lists the options that may change";
}

}  // namespace

bool same_training(const Options& a, const Options& b) {
  const std::vector<FieldInfo> fields = fields_of<Options>();
  return std::all_of(fields.begin(), fields.end(), [&](const FieldInfo& field) {
    return field.traits.affects != Affects::weights || field_text(a, field.name) == field_text(b, field.name);
  });
}

Options resumed_options(const Options& asked, const Options& run, const std::vector<std::string>& given,
                        Change change) {
  Options options = run;
  const Options defaults;
  // If the place changes and no GPUs are named, those of the run are not meant.
  if (asked.execution != defaults.execution ||
      std::find(given.begin(), given.end(), "execution") != given.end())
    options.devices = asked.devices;
  for (const FieldInfo& field : fields_of<Options>()) {
    const std::string& name = field.name;
    const std::string wanted = field_text(asked, name);
    const std::string had = field_text(run, name);
    const bool is_given =
        wanted != field_text(defaults, name) || std::find(given.begin(), given.end(), name) != given.end();
    if (wanted == had || !is_given) continue;
    if (change == Change::refused && field.traits.affects == Affects::weights) {
      throw Error(ErrorCode::invalid_option,
                  "--" + name + " " + wanted + " differs from the run's " +
                      (had.empty() ? "empty value" : had) + ", and must not change at resume",
                  fixed_hint(name, asked));
    }
    set_field(options, name, wanted);
  }
  // These always say what is wanted now, also if it is the default.
  options.output = asked.output;
  options.resume = asked.resume;
  options.plot = asked.plot;
  options.timing = asked.timing;
  options.verbose = asked.verbose;
  options.report_score_after_averaging = asked.report_score_after_averaging;
  options.max_time = asked.max_time;
  options.pause_after_step = asked.pause_after_step;
  options.worker_load = asked.worker_load;  // of the ranks that there are now
  return options;
}

namespace {

bool ranks_decide(ExchangeKind exchange) {
  return exchange == ExchangeKind::bf16 || exchange == ExchangeKind::fp16 ||
         exchange == ExchangeKind::powersgd;
}

}  // namespace

Json fingerprint_of(const Options& options, const Prepared& prepared, int64_t ranks) {
  const Plan& plan = prepared.plan;
  Json json{{"network", plan.network.name},
            {"layers", as_hex(hash_of(prepared.network.spec().dump()))},
            {"parameters", plan.network.parameter_count},
            {"classes", plan.data.classes},
            {"images", plan.data.train_count},
            {"held-out images", plan.data.validation_count},
            {"listing", plan.data.listing_hash},
            {"held-out listing", plan.data.held_out_listing_hash},
            {"shards", plan.step.shards},
            {"precision", enum_names(plan.step.precision)[static_cast<size_t>(plan.step.precision)]},
            {"mini-batch", plan.step.mini_batch_size},
            {"learning rate", plan.update.learning_rate},
            {"steps", plan.length.total_steps}};
  const Json asked = lockstep::to_json(options);
  for (const FieldInfo& field : fields_of<Options>()) {
    if (field.traits.affects == Affects::weights) json["--" + field.name] = asked[field.name];
  }
  if (ranks_decide(options.exchange)) json["number of ranks"] = ranks;
  if (plan.step.sampler_replicas > 0) json["replicas of the sampler"] = plan.step.sampler_replicas;
  if (const std::vector<int64_t> part = queue_cut(plan.data); !part.empty())
    json["part cut out of larger images"] = part;
  if (plan.recipe.kind == Recipe::auto_) json["recipe"] = lockstep::to_json(plan.recipe);
  json["arithmetic"] = plan.machine.fingerprint;
  return json;
}

std::string hint_for(const std::string& name, const Json& checkpoint, const Json& here) {
  if (name == "number of ranks" && checkpoint.contains(name))
    return "start " + checkpoint[name].dump() + " ranks again (lockstep run -n " + checkpoint[name].dump() +
           "), or start a new run with another --output";
  if (!name.ends_with("images") && !name.ends_with("listing")) return "start a new run with another --output";
  const char* folder =
      checkpoint.value("listing", Json()) == here.value("listing", Json()) ? "validation" : "training";
  return std::string("the ") + folder + " folder has changed since; restore it, or start a new run";
}

std::string compare_fingerprints(const Json& checkpoint, const Json& here) {
  std::string warning;
  const Json defaults = lockstep::to_json(Options{.recipe = Recipe::plain});
  for (const auto& [name, value] : here.items()) {
    // A run that began before an option existed has its default.
    const bool is_new = !checkpoint.contains(name) && name.starts_with("--");
    const Json before = is_new ? defaults.value(name.substr(2), Json()) : checkpoint.value(name, Json());
    if (before == value) continue;
    if (name == "arithmetic") {
      warning = "the arithmetic differs from the checkpoint's, so the weights' bits may: was " +
                before.dump() + ", is " + value.dump();
      continue;
    }
    const auto shown = [](const Json& json) {
      return json.dump().size() > 200 ? as_hex(hash_of(json.dump())) : json.dump();
    };
    throw Error(ErrorCode::invalid_option,
                "the checkpoint is of another run: its " + name + " was " + shown(before) + " and is now " +
                    shown(value),
                hint_for(name, checkpoint, here));
  }
  return warning;
}

}  // namespace lockstep::train
