#include "lockstep/data/internal/dataset_parts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

// The usual names, each with the option that takes it, in a command's order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kParts{
    {{"train", ""},
     {"training", ""},
     {"val", "--validation "},
     {"valid", "--validation "},
     {"validation", "--validation "},
     {"test", "--test "},
     {"testing", "--test "}}};

// The options that name the parts separately.
std::string apart(const std::string& root, const std::vector<std::string>& parts) {
  std::string words;
  for (const auto& [part, option] : kParts) {
    for (const std::string& name : parts) {
      if (lower(name) == part) words += (words.empty() ? "" : " ") + std::string(option) + root + "/" + name;
    }
  }
  return words;
}

}  // namespace

bool is_dataset_part(std::string_view name) {
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](const auto& part) { return part.first == lower(name); });
}

void DatasetParts::sort() {
  std::sort(labelled.begin(), labelled.end());
  std::sort(unlabelled.begin(), unlabelled.end());
}

void DatasetParts::check(const std::string& root, size_t class_count) const {
  const bool all = unlabelled.size() > 1 && unlabelled.size() == class_count;
  if (unlabelled.empty() || (labelled.empty() && !all)) return;
  const std::string folder = root + "/" + unlabelled.front();
  throw Error(ErrorCode::invalid_option, "\"" + folder + "\" has images and no class folders",
              labelled.empty()
                  ? "put the images of each class into their own folder: " + folder + "/cat/1.png"
                  : "train on the other part only: " + root + "/" + labelled.front() +
                        "; lockstep predict takes images without labels");
}

std::string DatasetParts::warning(const std::string& root) const {
  if (labelled.size() < 2) return "";
  return "the folders " + join(labelled, ", ") + " of \"" + root +
         "\" are used as one dataset; to use them separately: lockstep train " + apart(root, labelled);
}

}  // namespace lockstep::data
