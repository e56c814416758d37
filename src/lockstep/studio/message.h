// A request of a browser and its answer, apart from the network that carries them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"

namespace lockstep::studio {

struct Request {
  std::string method{};
  std::string path{};                          ///< decoded, without the query
  std::map<std::string, std::string> query{};  ///< decoded; the last value of a repeated name
  std::string host{};
  std::string origin{};  ///< empty: the browser sent none
  std::string cookies{};
  std::string content_type{};
  std::string body{};

  /// A value of the query; empty if it is missing.
  std::string value(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  }
};

/// Gives what was added to a stream of events since the last call. One thread at a time.
using Feed = std::function<std::string()>;

struct Response {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
  Feed feed{};  ///< for a stream of events: the body has no end
};

/// How a request is answered, decided by its head: all of it but the body.
struct Answering {
  /// Of the whole request. Called by several threads at once. What it throws becomes the answer
  /// (error_response).
  std::function<Response(const Request&)> answer;
  bool is_slow = false;       ///< answer() may take seconds or minutes
  bool ignores_body = false;  ///< the body is not read
};

/// With this answer, whatever the body is.
Answering always(Response response);

Response json_response(const Json& json);

/// {"error", "hint"} of whatever is being handled; 404 for what is not there, 400 for other mistakes of the
/// caller, else 500.
Response error_response();

/// Splits a request's target into path and query, and decodes both. False if it is no such target.
bool read_target(std::string_view target, Request& request);

}  // namespace lockstep::studio
