#include "lockstep/studio/message.h"

#include <exception>
#include <optional>

#include "lockstep/base/failure.h"
#include "lockstep/base/text.h"

namespace lockstep::studio {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      result += ' ';
    } else if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = digit_of(text[i + 1]);
      const int low = digit_of(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

unsigned status_of(ErrorCode code) {
  if (code == ErrorCode::not_found) return 404;
  return code == ErrorCode::invalid_option || code == ErrorCode::corrupt_data ? 400 : 500;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Answering always(Response response) {
  return {.answer = [response = std::move(response)](const Request&) { return response; },
          .ignores_body = true};
}

Response json_response(const Json& json) { return {.body = dumped(json)}; }

Response error_response() {
  const Error error = error_from(std::current_exception());
  Json json{{"error", error.message()}};
  if (!error.context().empty()) json["context"] = error.context();
  if (!error.hint().empty()) json["hint"] = error.hint();
  return {.status = status_of(error.code()), .body = dumped(json)};
}

bool read_target(std::string_view target, Request& request) {
  if (target.empty() || target[0] != '/') return false;
  const size_t mark = target.find('?');
  const auto path = decoded(target.substr(0, mark));
  if (!path) return false;
  request.path = *path;
  if (mark == std::string_view::npos) return true;
  for (const std::string& part : split(target.substr(mark + 1), '&')) {
    if (part.empty()) continue;
    const size_t equal = part.find('=');
    const auto name = decoded(std::string_view(part).substr(0, equal));
    const auto value = equal == std::string::npos ? std::optional<std::string>("")
                                                  : decoded(std::string_view(part).substr(equal + 1));
    if (!name || !value) return false;
    request.query[*name] = *value;
  }
  return true;
}

}  // namespace lockstep::studio
