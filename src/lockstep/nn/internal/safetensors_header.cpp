#include "lockstep/nn/internal/safetensors_header.h"

#include <limits>
#include <unordered_set>

#include "lockstep/base/json.h"
#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

constexpr size_t kMostDimensions = 64;  // LibTorch's limit

/// nlohmann's SAX interface. Levels: 1 names, 2 fields of a tensor or metadata, 3 lists.
class HeaderReader {
 public:
  explicit HeaderReader(Header& header) : header_(header) {}

  bool start_object(size_t) {
    if (depth_ == 0) {
      depth_ = 1;
    } else if (depth_ == 1) {
      depth_ = 2;
      if (!in_metadata_) header_.entries.push_back({.name = name_});
      seen_.clear();
    } else {
      misplaced();
    }
    return true;
  }

  bool end_object() {
    if (depth_ == 2 && !in_metadata_ &&
        (!seen_.contains("dtype") || !seen_.contains("shape") || !seen_.contains("data_offsets"))) {
      throw HeaderError{"tensor " + in_quotes(name_) + " lacks its dtype, shape or data_offsets"};
    }
    --depth_;
    return true;
  }

  bool key(std::string& text) {
    if (depth_ == 1) {
      if (!names_.insert(text).second) throw HeaderError{in_quotes(text) + " occurs twice in its header"};
      name_ = text;
      in_metadata_ = text == "__metadata__";
    } else {
      if (!seen_.insert(text).second)
        throw HeaderError{in_quotes(text) + " occurs twice in " + in_quotes(name_)};
      field_ = text;
    }
    return true;
  }

  bool start_array(size_t) {
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets")) misplaced();
    depth_ = 3;
    numbers_.clear();
    return true;
  }

  bool end_array() {
    depth_ = 2;
    HeaderEntry& entry = header_.entries.back();
    if (field_ == "shape") {
      entry.shape = numbers_;
    } else {
      if (numbers_.size() != 2)
        throw HeaderError{"data_offsets of " + in_quotes(name_) + " are not two numbers"};
      entry.begin = numbers_[0];
      entry.end = numbers_[1];
    }
    return true;
  }

  bool number_unsigned(uint64_t value) {
    if (depth_ != 3) misplaced();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      throw HeaderError{"a size or offset of " + in_quotes(name_) + " is too large"};
    if (numbers_.size() == kMostDimensions)
      throw HeaderError{in_quotes(name_) + " has more than " + std::to_string(kMostDimensions) +
                        " dimensions"};
    numbers_.push_back(value);
    return true;
  }

  bool string(std::string& text) {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata[field_] = text;
    } else if (depth_ == 2 && field_ == "dtype") {
      header_.entries.back().dtype = text;
    } else {
      misplaced();
    }
    return true;
  }

  bool null() { misplaced(); }
  bool boolean(bool) { misplaced(); }
  bool number_integer(int64_t) {
    throw HeaderError{"a size or offset of " + in_quotes(name_) + " is negative"};
  }
  bool number_float(double, const std::string&) { misplaced(); }
  bool binary(std::vector<uint8_t>&) { misplaced(); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    throw HeaderError{"its header is not valid JSON at byte " + std::to_string(position)};
  }

 private:
  [[noreturn]] void misplaced() const {
    if (depth_ == 0) throw HeaderError{"its header is not a JSON object"};
    const std::string place = depth_ == 1 ? in_quotes(name_) : in_quotes(field_) + " of " + in_quotes(name_);
    throw HeaderError{place + " in its header is not allowed by the format"};
  }

  Header& header_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_;
  std::string field_;
  std::vector<uint64_t> numbers_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

Header parse_safetensors_header(std::string_view text) {
  if (!text.starts_with('{')) throw HeaderError{"its header does not begin with {"};
  Header header;
  HeaderReader reader(header);
  Json::sax_parse(text, &reader);
  return header;
}

}  // namespace lockstep::nn
