#include "lockstep/nn/internal/quotes.h"

namespace lockstep::nn {
namespace {

constexpr size_t kMostBytes = 80;

bool continues_a_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string in_quotes(const std::string& text) {
  size_t size = text.size();
  if (size > kMostBytes) {
    size = kMostBytes;
    while (size > 0 && continues_a_character(text[size])) --size;
  }
  std::string shown = "\"";
  for (size_t i = 0; i < size; ++i)
    shown += static_cast<unsigned char>(text[i]) < 32 || text[i] == 127 ? '?' : text[i];
  return shown + (size < text.size() ? "...\"" : "\"");
}

}  // namespace lockstep::nn
