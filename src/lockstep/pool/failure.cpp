#include "lockstep/pool/internal/failure.h"

#include <new>

#include <c10/util/Exception.h>

namespace lockstep::pool {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Texts of other people's making need not be UTF-8.
Json text_json(const std::string& text) { return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)); }

ErrorCode code_named(const std::string& name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    if (name_of(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  throw Error(ErrorCode::corrupt_data, "a worker sent an error of the unknown kind \"" + name + "\"");
}

}  // namespace

Error error_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return {ErrorCode::out_of_memory, "the GPU's memory is full: " + first_line(error.what_without_backtrace())};
  } catch (const c10::Error& error) {
    const std::string text = first_line(error.what_without_backtrace());
    const bool memory = text.find("can't allocate memory") != std::string::npos;
    return {memory ? ErrorCode::out_of_memory : ErrorCode::internal, memory ? "out of memory" : "LibTorch says: " + text};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "an exception of an unknown type"};
  }
}

Json json_of(const Error& error) {
  Json context = Json::array();
  for (const std::string& line : error.context()) context.push_back(text_json(line));
  return {{"code", name_of(error.code())}, {"message", text_json(error.message())}, {"hint", text_json(error.hint())}, {"context", std::move(context)}};
}

Error error_of(const Json& json) {
  try {
    Error error(code_named(json.at("code").get<std::string>()), json.at("message").get<std::string>(), json.at("hint").get<std::string>());
    for (const Json& line : json.at("context")) error.add_context(line.get<std::string>());
    return error;
  } catch (const Json::exception&) {
    throw Error(ErrorCode::corrupt_data, "a worker sent an error that cannot be read");
  }
}

}  // namespace lockstep::pool
