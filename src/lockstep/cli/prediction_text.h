// Predictions as text for files and tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// The class's name; empty if the sample's class is unknown.
std::string class_name(const std::vector<std::string>& classes, int64_t label);

/// A header, then one line per prediction: file, label (the answer), score, target (the true class), and the
/// score of each class; with `top` above 0 in place of the latter as many classes with the highest scores:
/// label_1, score_1, label_2 and so on. Scores have six decimals.
std::string as_csv(std::span<const train::Prediction> predictions, const std::vector<std::string>& classes,
                   int64_t top = 0);

/// An object with the same names; target is null if it is unknown. With `top` a list "top" of objects.
Json as_json(const train::Prediction& prediction, const std::vector<std::string>& classes, int64_t top = 0);

/// JSON as text. Bytes that are not UTF-8 become replacement characters.
std::string json_text(const Json& json, int indent);

}  // namespace lockstep::cli
