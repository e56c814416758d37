#include "lockstep/cli/prediction_text.h"

#include "lockstep/base/text.h"

namespace lockstep::cli {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string class_name(const std::vector<std::string>& classes, int64_t label) {
  return label < 0 ? "" : classes[static_cast<size_t>(label)];
}

std::string as_csv(std::span<const train::Prediction> predictions, const std::vector<std::string>& classes) {
  std::string text = "file,label,score,target";
  for (const std::string& name : classes) text += "," + csv_cell("score_" + name);
  text += "\n";
  for (const train::Prediction& one : predictions) {
    text += csv_cell(one.source) + "," + csv_cell(class_name(classes, one.label)) + "," +
            shortest(one.scores[static_cast<size_t>(one.label)]) + "," +
            csv_cell(class_name(classes, one.target));
    for (const double score : one.scores) text += "," + shortest(score);
    text += "\n";
  }
  return text;
}

Json as_json(const train::Prediction& one, const std::vector<std::string>& classes) {
  Json json{{"file", one.source},
            {"label", class_name(classes, one.label)},
            {"score", one.scores[static_cast<size_t>(one.label)]},
            {"target", nullptr}};
  if (one.target >= 0) json["target"] = class_name(classes, one.target);
  for (size_t i = 0; i < classes.size(); ++i) json["scores"][classes[i]] = one.scores[i];
  return json;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::cli
