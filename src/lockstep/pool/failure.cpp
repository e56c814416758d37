#include "lockstep/pool/internal/failure.h"

namespace lockstep::pool {
namespace {

// Texts of other libraries need not be UTF-8.
Json text_json(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

ErrorCode code_named(const std::string& name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    if (name_of(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  throw Error(ErrorCode::corrupt_data, "a worker sent an error of the unknown kind \"" + name + "\"");
}

}  // namespace

Json json_of(const Error& error) {
  Json context = Json::array();
  for (const std::string& line : error.context()) context.push_back(text_json(line));
  return {{"code", name_of(error.code())},
          {"message", text_json(error.message())},
          {"hint", text_json(error.hint())},
          {"context", std::move(context)}};
}

Error error_of(const Json& json) {
  try {
    Error error(code_named(json.at("code").get<std::string>()), json.at("message").get<std::string>(),
                json.at("hint").get<std::string>());
    for (const Json& line : json.at("context")) error.add_context(line.get<std::string>());
    return error;
  } catch (const Json::exception&) {
    throw Error(ErrorCode::corrupt_data, "a worker sent an error that cannot be read");
  }
}

}  // namespace lockstep::pool
