#include "lockstep/cli/prediction_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lockstep/base/csv_text.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {

std::string class_name(const std::vector<std::string>& classes, int64_t label) {
  return label < 0 ? "" : classes[static_cast<size_t>(label)];
}

namespace {

constexpr int kDecimals = 6;  // float32 scores have about seven digits

// The places of the classes with the highest scores; of equal scores the first class comes first.
std::vector<size_t> best_of(const std::vector<double>& scores, int64_t top) {
  std::vector<size_t> places(scores.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  places.resize(std::min(places.size(), static_cast<size_t>(top)));
  return places;
}

// As the text has it, so that both kinds of output have the same numbers.
Json rounded(double score) {
  return std::isfinite(score) ? parse_json(fixed(score, kDecimals)) : Json(score);
}

}  // namespace

std::string as_csv(std::span<const train::Prediction> predictions, const std::vector<std::string>& classes,
                   int64_t top) {
  std::string text = "file,label,score,target";
  for (int64_t i = 1; i <= std::min(top, static_cast<int64_t>(classes.size())); ++i)
    text += ",label_" + std::to_string(i) + ",score_" + std::to_string(i);
  if (top == 0)
    for (const std::string& name : classes) text += "," + csv_cell("score_" + name);
  text += "\n";
  for (const train::Prediction& one : predictions) {
    text += csv_cell(one.source) + "," + csv_cell(class_name(classes, one.label)) + "," +
            fixed(one.scores[static_cast<size_t>(one.label)], kDecimals) + "," +
            csv_cell(class_name(classes, one.target));
    if (top == 0)
      for (const double score : one.scores) text += "," + fixed(score, kDecimals);
    for (const size_t place : best_of(one.scores, top))
      text += "," + csv_cell(classes[place]) + "," + fixed(one.scores[place], kDecimals);
    text += "\n";
  }
  return text;
}

Json as_json(const train::Prediction& one, const std::vector<std::string>& classes, int64_t top) {
  Json json{{"file", one.source},
            {"label", class_name(classes, one.label)},
            {"score", rounded(one.scores[static_cast<size_t>(one.label)])},
            {"target", nullptr}};
  if (one.target >= 0) json["target"] = class_name(classes, one.target);
  if (top > 0) {
    json["top"] = Json::array();
    for (const size_t place : best_of(one.scores, top))
      json["top"].push_back({{"label", classes[place]}, {"score", rounded(one.scores[place])}});
    return json;
  }
  Json::object_t scores;  // appended directly: ordered_json searches all keys at each insertion
  for (size_t i = 0; i < classes.size(); ++i) scores.push_back({classes[i], rounded(one.scores[i])});
  json["scores"] = std::move(scores);
  return json;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::cli
