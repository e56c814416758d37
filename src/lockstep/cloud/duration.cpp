#include "lockstep/cloud/duration.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_reason.h"
#include "lockstep/base/text.h"

namespace lockstep::cloud {
namespace {

constexpr int64_t kMostForecastBytes = int64_t{64} << 20;
constexpr double kSecondsPerHour = 3600;

double scaled(const std::pair<int64_t, double>& row, int64_t workers, double kept) {
  const double ratio = static_cast<double>(row.first) / static_cast<double>(workers);
  return row.second * ratio / std::pow(kept, -std::log2(ratio));
}

std::pair<int64_t, double> row_of(const Json& row, const std::string& name) {
  const auto workers = row.find("workers");
  const auto seconds = row.find("run_seconds");
  if (workers == row.end() || !workers->is_number_integer() || seconds == row.end() ||
      !seconds->is_number() || workers->get<int64_t>() < 1 || !(seconds->get<double>() > 0))
    throw Error(ErrorCode::corrupt_data,
                name + " has a forecast row without workers and run_seconds above 0");
  return {workers->get<int64_t>(), seconds->get<double>() / kSecondsPerHour};
}

}  // namespace

Duration::Duration(double hours, int64_t workers, double kept) : rows_{{workers, hours}}, kept_(kept) {}

Duration::Duration(std::vector<std::pair<int64_t, double>> rows, double kept)
    : rows_(std::move(rows)), kept_(kept) {}

double Duration::hours(int64_t workers) const {
  const auto after =
      std::find_if(rows_.begin(), rows_.end(), [&](auto& row) { return row.first >= workers; });
  if (after == rows_.end()) return scaled(rows_.back(), workers, kept_);
  if (after->first == workers) return after->second;
  if (after == rows_.begin()) return scaled(rows_.front(), workers, kept_);
  const auto before = std::prev(after);
  const auto log_of = [](int64_t count) { return std::log(static_cast<double>(count)); };
  const double share =
      (log_of(workers) - log_of(before->first)) / (log_of(after->first) - log_of(before->first));
  return std::exp(std::log(before->second) + share * (std::log(after->second) - std::log(before->second)));
}

ForecastFile read_forecast(const std::filesystem::path& file) {
  const std::string name = quote(file.string());
  const char* hint = "write it with lockstep plan FOLDER --forecast 1,2,4,8 --json > FILE";
  Json json;
  try {
    json = parse_json(read_file(file, kMostForecastBytes));
  } catch (const JsonError& error) {
    throw Error(ErrorCode::corrupt_data, name + " is damaged: " + reason_of(error), hint);
  }
  const auto forecast = json.is_object() ? json.find("forecast") : json.end();
  if (!json.is_object() || forecast == json.end() || !forecast->is_object() || !forecast->contains("rows") ||
      !(*forecast)["rows"].is_array() || (*forecast)["rows"].empty())
    throw Error(ErrorCode::corrupt_data, name + " has no forecast", hint);
  ForecastFile read;
  for (const Json& row : (*forecast)["rows"]) read.rows.push_back(row_of(row, name));
  std::sort(read.rows.begin(), read.rows.end());
  read.rows.erase(
      std::unique(read.rows.begin(), read.rows.end(), [](auto& a, auto& b) { return a.first == b.first; }),
      read.rows.end());
  read.on_gpu = json.value("device", Json("cpu")) != Json("cpu");
  return read;
}

}  // namespace lockstep::cloud
