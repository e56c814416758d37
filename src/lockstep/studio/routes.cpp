#include "lockstep/studio/routes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/text.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/studio/about_run.h"
#include "lockstep/studio/assets.h"
#include "lockstep/studio/cluster_routes.h"
#include "lockstep/studio/command_words.h"
#include "lockstep/studio/designer.h"
#include "lockstep/studio/exchange.h"
#include "lockstep/studio/form.h"
#include "lockstep/studio/index_page.h"
#include "lockstep/studio/job_routes.h"
#include "lockstep/studio/sweep_words.h"
#include "lockstep/studio/training.h"

namespace lockstep::studio {
namespace {

constexpr int64_t kMostReport = int64_t{256} << 20;
constexpr size_t kMostCurves = 200;  // in one answer
constexpr int64_t kMostColumns = 10'000;
constexpr auto kTableLimit = std::chrono::seconds(60);

enum class Pace { quick, slow };
struct Route {
  const char* method;
  const char* path;
  Response (*answer)(const Request& request, const Parts& parts);
  Pace pace = Pace::quick;
};

Json body_of(const Request& request) {
  try {
    Json body = parse_json(request.body);
    if (body.is_object()) return body;
  } catch (const JsonError& error) {
    throw Error(ErrorCode::invalid_option, std::string("the request is no JSON: ") + error.what());
  }
  throw Error(ErrorCode::invalid_option, "the request is no JSON object");
}

template <class T>
T number_in(const Request& request, const char* name, T fallback) {
  const std::string text = request.value(name);
  if (text.empty()) return fallback;
  const auto value = parse_number<T>(text);
  if (!value || !std::isfinite(static_cast<double>(*value)))
    throw Error(ErrorCode::invalid_option, std::string(name) + " is no number");
  return *value;
}

Response get_studio(const Request&, const Parts& parts) {
  Json json{{"version", parts.setup.version}, {"roots", Json::array()}};
  for (const auto& root : parts.runs.roots()) json["roots"].push_back(root.string());
  Json& commands = json["commands"] = Json::array();
  for (const CommandForm& one : parts.setup.commands) commands.push_back(one.name);
  return json_response(json);
}

// While a page hears, it is told of a command that ends.
Response get_stream(const Request&, const Parts& parts) {
  return {.type = "text/event-stream",
          .feed = [&commands = parts.commands, feed = parts.events.make_feed()]() mutable {
            commands.look();
            return feed();
          }};
}

Response get_runs(const Request& request, const Parts& parts) {
  return {.body = parts.runs.list_since(number_in<int64_t>(request, "since", 0))};
}

Response get_run(const Request& request, const Parts& parts) {
  return json_response(about_run(request.value("id"), parts));
}

Axis axis_of(const std::string& name) {
  if (name.empty() || name == "step") return Axis::step;
  if (name == "epoch") return Axis::epoch;
  if (name == "time") return Axis::time;
  throw Error(ErrorCode::invalid_option, "x must be step, epoch or time");
}

Json json_of(const Points& points) {
  Json json{{"x", points.x}, {"y", Json::array()}, {"count", points.count}};
  Json& y = json["y"];
  for (const double value : points.y)
    y.push_back(std::isfinite(value) ? Json(shortest_number(static_cast<float>(value))) : Json());
  return json;
}

Response get_curves(const Request& request, const Parts& parts) {
  const std::vector<std::string> ids = split(request.value("ids"), ',');
  const std::vector<std::string> names = split(request.value("names"), ',');
  if (ids.size() * names.size() > kMostCurves)
    throw Error(ErrorCode::invalid_option, "more than " + std::to_string(kMostCurves) + " curves at once");
  const CurveQuestion question{.name = {},
                               .axis = axis_of(request.value("x")),
                               .window = {.from = number_in(request, "from", -1e300),
                                          .to = number_in(request, "to", 1e300),
                                          .columns = std::clamp<int64_t>(
                                              number_in<int64_t>(request, "columns", 800), 1, kMostColumns)},
                               .smoothing = std::clamp(number_in(request, "smoothing", 0.0), 0.0, 0.9999)};
  Json json = Json::array();
  for (const std::string& id : ids) {
    std::shared_ptr<RunLog> log;
    try {
      log = parts.runs.log_of(id);
    } catch (const Error&) {  // removed meanwhile
      continue;
    }
    for (const std::string& name : names) {
      CurveQuestion one = question;
      one.name = name;
      const auto curve = log->curve(one);
      if (!curve) continue;
      Json item{{"id", id},
                {"name", name},
                {"complete", log->is_complete()},
                {"first", curve->first},
                {"last", curve->last},
                {"raw", json_of(curve->raw)}};
      if (question.smoothing > 0) item["smooth"] = json_of(curve->smooth);
      json.push_back(std::move(item));
    }
  }
  return json_response(json);
}

// The pages of lockstep report have no script and load nothing; in a sandbox nothing in them could act
// either.
Response report_response(const std::filesystem::path& file) {
  return {.type = "text/html; charset=utf-8",
          .body = read_regular_file(file, kMostReport),
          .headers = {{"Content-Security-Policy",
                       "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
                       "frame-ancestors 'self'"}}};
}

Response get_report(const Request& request, const Parts& parts) {
  return report_response(record::RunPaths{parts.runs.folder_of(request.value("id"))}.report());
}

Response post_request(const Request& request, const Parts& parts) {
  const Json body = body_of(request);
  const std::filesystem::path folder = parts.runs.folder_of(text_in(body, "id"));
  const std::string wanted = text_in(body, "request");
  const auto names = enum_names(record::RequestKind{});
  const auto* const found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end())
    throw Error(ErrorCode::invalid_option, "no run knows the request " + quote(wanted));
  const record::StateOfRun state = record::state_of(folder);
  if (state.state != record::RunState::running && state.state != record::RunState::stopping)
    throw Error(ErrorCode::invalid_option, "the run is not going on");
  if (!reads_requests(folder))
    throw Error(ErrorCode::invalid_option, "the run's program reads no requests",
                "press Ctrl-C where it runs" + (state.host.empty() ? "" : ", on " + state.host));
  const std::string id = record::make_request(
      folder, {.request = static_cast<record::RequestKind>(std::distance(names.begin(), found))});
  return json_response({{"request", id}});
}

Response post_command(const Request& request, const Parts& parts) {
  const std::vector<std::string> words = command_words(body_of(request), parts, Files::written);
  return json_response({{"number", parts.commands.start(words)}, {"words", parts.commands.shown(words)}});
}

Response get_commands(const Request&, const Parts& parts) { return json_response(parts.commands.list()); }

Response get_command(const Request& request, const Parts& parts) {
  return json_response(parts.commands.about(number_in<int64_t>(request, "number", 0)));
}

Response get_layers(const Request&, const Parts&) { return json_response(layer_palette()); }

Response get_networks(const Request&, const Parts&) { return json_response(network_list()); }

Response get_network(const Request& request, const Parts&) {
  return json_response(network_drawing(request.value("name")));
}

Response post_drawing(const Request& request, const Parts&) {
  return json_response(check_drawing(body_of(request)));
}

// A file of a network, in any form that lockstep train takes.
Response post_network(const Request& request, const Parts&) {
  const Json body = body_of(request);
  const auto network = body.find("network");
  if (network == body.end()) throw Error(ErrorCode::invalid_option, "the request lacks \"network\"");
  return json_response(drawing_of(*network));
}

Response post_open(const Request& request, const Parts& parts) {
  return json_response(open_file(text_in(body_of(request), "path"), parts));
}

Response get_exported(const Request& request, const Parts& parts) {
  return exported_file(request.value("name"), parts.setup);
}

Response get_training_form(const Request&, const Parts& parts) {
  return json_response(training_form(parts.setup));
}

Response get_form(const Request& request, const Parts& parts) {
  const std::string command = request.value("command");
  if (command == "sweep") return json_response(sweep_form(parts.setup));
  return json_response(form_of(form_called(parts.setup, command).fields, {"yes", "json"}));
}

Response post_plan(const Request& request, const Parts& parts) {
  return {.body = plan_of(read_training(body_of(request), parts.setup), parts.setup, parts.commands)};
}

Response post_shown(const Request& request, const Parts& parts) {
  return json_response(
      {{"words", parts.commands.shown(command_words(body_of(request), parts, Files::named))}});
}

Response get_jobs(const Request&, const Parts& parts) { return {.body = list_of_jobs(parts.commands)}; }

Response get_all_jobs(const Request&, const Parts& parts) { return {.body = all_jobs(parts.commands)}; }

Response get_job(const Request& request, const Parts& parts) {
  return {.body = about_job(request.value("job"), parts.commands)};
}

Response get_diary(const Request& request, const Parts& parts) {
  return json_response(
      {{"text", diary_of(request.value("job"), number_in<int64_t>(request, "rank", -1), parts.commands)}});
}

Response get_sweeps(const Request&, const Parts& parts) { return json_response(parts.sweeps.list()); }

// A page that has had an answer before gets only what is new.
Response get_sweep(const Request& request, const Parts& parts) {
  const std::string id = request.value("id");
  const sweep::SweepPaths paths = parts.sweeps.paths_of(id);
  Json json = about_sweep(name_of(parts.runs.roots(), paths.folder), paths, parts.sweeps.table_of(id));
  json["resume"] = parts.commands.shown(sweep_words("sweep resume", {{"sweep", id}}, parts.sweeps));
  return json_response(parts.sweeps.news().answer(std::move(json), request.value("seen")));
}

Response get_sweep_table(const Request& request, const Parts& parts) {
  const std::string folder = parts.sweeps.paths_of(request.value("id")).folder.string();
  const bool is_csv = request.value("as") == "csv";
  return {.type = is_csv ? "text/csv; charset=utf-8" : "application/json",
          .body = parts.commands.output_of({"sweep", "export", folder, is_csv ? "--csv=-" : "--json=-"},
                                           kTableLimit),
          .headers = {{"Content-Disposition",
                       std::string("attachment; filename=\"sweep.") + (is_csv ? "csv" : "json") + "\""}}};
}

Response get_sweep_report(const Request& request, const Parts& parts) {
  return report_response(parts.sweeps.paths_of(request.value("id")).report());
}

Response get_profiles(const Request&, const Parts& parts) {
  return {.body = list_of_profiles(parts.commands)};
}

Response get_profile(const Request& request, const Parts& parts) {
  return {.body = about_profile(request.value("name"), parts.commands)};
}

Response get_profile_file(const Request& request, const Parts& parts) {
  return {.body = file_of_profile(request.value("name"), parts.commands),
          .headers = {{"Content-Disposition", "attachment; filename=\"profile.json\""}}};
}

Response get_pools(const Request&, const Parts& parts) { return {.body = list_of_pools(parts.commands)}; }

Response get_weights(const Request& request, const Parts& parts) {
  const std::string folder = parts.runs.folder_of(request.value("id")).string();
  return {.body = parts.commands.output_of({"weights", "show", folder, "--json"}, kTableLimit)};
}

// What a command prints that only shows something, for a page that has shown its words.
Response output_of(const char* command, const Request& request, const Parts& parts) {
  Json body = body_of(request);
  body["command"] = command;
  return {.body = parts.commands.output_of(command_words(body, parts, Files::written), kTableLimit)};
}

Response post_layer(const Request& request, const Parts& parts) {
  return output_of("layer show", request, parts);
}

Response post_times(const Request& request, const Parts& parts) {
  return output_of("network show", request, parts);
}

Response get_clouds(const Request&, const Parts& parts) { return {.body = list_of_clouds(parts.commands)}; }

Response post_data(const Request& request, const Parts& parts) {
  return {.body = about_data(body_of(request), parts.setup, parts.commands)};
}

Response post_price(const Request& request, const Parts& parts) {
  return {.body = parts.commands.output_of(price_words(body_of(request), parts.setup), kTableLimit)};
}

constexpr std::array kRoutes = std::to_array<Route>({
    {"GET", "/api/studio", get_studio},
    {"GET", "/api/stream", get_stream},
    {"GET", "/api/runs", get_runs},
    {"GET", "/api/run", get_run, Pace::slow},
    {"GET", "/api/curves", get_curves, Pace::slow},
    {"GET", "/api/weights", get_weights, Pace::slow},
    {"POST", "/api/layer", post_layer, Pace::slow},
    {"POST", "/api/times", post_times, Pace::slow},
    {"GET", "/api/report", get_report, Pace::slow},
    {"POST", "/api/request", post_request, Pace::slow},
    {"POST", "/api/command", post_command, Pace::slow},
    {"POST", "/api/shown", post_shown, Pace::slow},
    {"GET", "/api/commands", get_commands},
    {"GET", "/api/command", get_command},
    {"GET", "/api/layers", get_layers},
    {"GET", "/api/networks", get_networks},
    {"GET", "/api/network", get_network},
    {"POST", "/api/network", post_network},
    {"POST", "/api/drawing", post_drawing},
    {"GET", "/api/training", get_training_form},
    {"POST", "/api/plan", post_plan, Pace::slow},
    {"POST", "/api/data", post_data, Pace::slow},
    {"GET", "/api/jobs", get_jobs, Pace::slow},
    {"GET", "/api/all-jobs", get_all_jobs, Pace::slow},
    {"GET", "/api/job", get_job, Pace::slow},
    {"GET", "/api/diary", get_diary, Pace::slow},
    {"GET", "/api/form", get_form},
    {"GET", "/api/sweeps", get_sweeps, Pace::slow},
    {"GET", "/api/sweep", get_sweep, Pace::slow},
    {"GET", "/api/sweep-table", get_sweep_table, Pace::slow},
    {"GET", "/api/sweep-report", get_sweep_report, Pace::slow},
    {"GET", "/api/profiles", get_profiles, Pace::slow},
    {"GET", "/api/profile", get_profile, Pace::slow},
    {"GET", "/api/profile-file", get_profile_file, Pace::slow},
    {"GET", "/api/pools", get_pools, Pace::slow},
    {"GET", "/api/clouds", get_clouds, Pace::slow},
    {"POST", "/api/price", post_price, Pace::slow},
    {"POST", "/api/open", post_open, Pace::slow},
    {"GET", "/api/exported", get_exported, Pace::slow},
});

std::optional<Response> asset_at(std::string path) {
  const bool may_be_kept = path.starts_with(kept_prefix() + "/");
  if (may_be_kept) path.erase(0, kept_prefix().size());
  if (path == "/") path = "/index.html";
  for (const Asset& asset : assets()) {
    if (asset.path != path) continue;
    Response response{.type = std::string(asset.type),
                      .body = path == "/index.html" ? index_page(asset.bytes) : std::string(asset.bytes)};
    if (may_be_kept) response.headers.emplace_back("Cache-Control", "private, max-age=31536000, immutable");
    return response;
  }
  return std::nullopt;
}

}  // namespace

Answering find_answer(const Request& head, const Parts& parts) {
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  bool is_known = false;
  for (const Route& route : kRoutes) {
    if (head.path != route.path) continue;
    is_known = true;
    if (method == route.method)
      return {.answer = [respond = route.answer,
                         parts](const Request& request) { return respond(request, parts); },
              .is_slow = route.pace == Pace::slow};
  }
  if (auto asset = method == "GET" ? asset_at(head.path) : std::nullopt) return always(*std::move(asset));
  if (is_known) return always({.status = 405, .body = R"({"error":"not with this method"})"});
  return always({.status = 404, .body = R"({"error":"there is no such page"})"});
}

}  // namespace lockstep::studio
