// Predictions as files and tables show them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// A cell of a CSV file (RFC 4180): in quotes where it needs them.
std::string csv_cell(const std::string& text);

/// The class's name; empty for a sample whose class is not known.
std::string class_name(const std::vector<std::string>& classes, int64_t label);

/// A head, then a line for each: file, label (the answer), score, target (the true class), and the score of
/// each class.
std::string as_csv(std::span<const train::Prediction> predictions, const std::vector<std::string>& classes);

/// An object by the same names; without a target it is null.
Json as_json(const train::Prediction& prediction, const std::vector<std::string>& classes);

/// JSON as text. Names that are no UTF-8 get replacement characters.
std::string json_text(const Json& json, int indent);

}  // namespace lockstep::cli
