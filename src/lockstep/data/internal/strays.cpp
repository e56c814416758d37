#include "lockstep/data/internal/strays.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMostStraysListed = 5;

// All images and all CSV files, of which the strays are some.
std::string hint_for_strays(const std::vector<BadSample>& strays, ImagesOfClasses images) {
  int64_t csv_files = 0;
  for (const BadSample& stray : strays) {
    csv_files += is_csv_name(stray.source) ? 1 : 0;
    if (!is_image_name(stray.source)) continue;
    if (images.count++ == 0) images.first = stray.source;
  }
  const std::string remove =
      "remove " + std::string(strays.size() == 1 ? "it" : "them") + ", or add --on-bad-sample skip";
  if (images.count == 0 || images.count >= csv_files) return remove;
  return "if the data are the " + with_commas(csv_files) + " CSV files, one sequence each, remove the " +
         (images.count == 1 ? "one image: " : with_commas(images.count) + " images; the first is ") +
         images.first + "; if they are the images, " + remove;
}

}  // namespace

void refuse_strays(const std::string& root, const std::vector<BadSample>& strays,
                   const ImagesOfClasses& images) {
  const auto count = static_cast<int64_t>(strays.size());
  Error error(ErrorCode::corrupt_data,
              "\"" + root + "\" contains " +
                  (count == 1 ? "1 file that is not an image of a class: "
                              : with_commas(count) + " files that are not images of a class: ") +
                  "\"" + strays.front().source + "\": " + strays.front().reason,
              hint_for_strays(strays, images));
  const int64_t listed = std::min(count, kMostStraysListed);
  for (int64_t i = 1; i < listed; ++i) {
    const BadSample& stray = strays[static_cast<size_t>(i)];
    error.add_context("\"" + stray.source + "\": " + stray.reason);
  }
  if (listed < count) error.add_context("and " + with_commas(count - listed) + " more");
  throw error;
}

}  // namespace lockstep::data
