#include "lockstep/data/internal/strays.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/formats.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMostStraysListed = 5;

std::string removal_of(size_t count) {
  return "remove " + std::string(count == 1 ? "it" : "them") + ", or add --on-bad-sample skip";
}

// All images and all CSV files, of which the strays are some.
std::string hint_for_strays(const std::vector<BadSample>& strays, ImagesOfClasses images) {
  int64_t csv_files = 0;
  for (const BadSample& stray : strays) {
    csv_files += is_csv_name(stray.source) ? 1 : 0;
    if (!is_image_name(stray.source)) continue;
    if (images.count++ == 0) images.first = stray.source;
  }
  if (images.count == 0) return hint_for_names();
  const std::string remove = removal_of(strays.size());
  if (images.count >= csv_files) return remove;
  return "if the data are the " + with_commas(csv_files) + " CSV files, one sequence each, remove the " +
         (images.count == 1 ? "one image: " : with_commas(images.count) + " images; the first is ") +
         images.first + "; if they are the images, " + remove;
}

}  // namespace

std::string hint_for_names() {
  return "names of images end in " + image_endings() + "; convert images of other formats to PNG";
}

void refuse_files(const std::string& root, const std::vector<BadSample>& strays, const std::string& what,
                  const std::string& hint) {
  const auto count = static_cast<int64_t>(strays.size());
  Error error(
      ErrorCode::corrupt_data,
      "\"" + root + "\" contains " + what + ": \"" + strays.front().source + "\": " + strays.front().reason,
      hint);
  const int64_t listed = std::min(count, kMostStraysListed);
  for (int64_t i = 1; i < listed; ++i) {
    const BadSample& stray = strays[static_cast<size_t>(i)];
    error.add_context("\"" + stray.source + "\": " + stray.reason);
  }
  if (listed < count) error.add_context("and " + with_commas(count - listed) + " more");
  throw error;
}

void refuse_strays(const std::string& root, const std::vector<BadSample>& strays,
                   const ImagesOfClasses& images) {
  refuse_files(root, strays,
               strays.size() == 1 ? "1 file that is not an image of a class"
                                  : with_commas(std::ssize(strays)) + " files that are not images of a class",
               hint_for_strays(strays, images));
}

void refuse_strays(const std::string& root, const std::vector<BadSample>& strays) {
  refuse_files(root, strays,
               strays.size() == 1 ? "1 file that cannot be read"
                                  : with_commas(std::ssize(strays)) + " files that cannot be read",
               removal_of(strays.size()));
}

bool is_note(std::string_view name) {
  const std::string low = lower(name);
  if (low.starts_with("readme") || low.starts_with("license") || low.starts_with("licence")) return true;
  constexpr std::array<std::string_view, 5> kEndings{".txt", ".csv", ".tsv", ".json", ".md"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return low.ends_with(ending); });
}

}  // namespace lockstep::data
