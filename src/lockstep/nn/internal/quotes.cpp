#include "lockstep/nn/internal/quotes.h"

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {
namespace {

constexpr int kMostColumns = 80;

}  // namespace

std::string in_quotes(const std::string& text) { return quote(shortened(printable(text), kMostColumns)); }

}  // namespace lockstep::nn
