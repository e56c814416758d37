#include "lockstep/studio/gate.h"

#include <algorithm>
#include <arpa/inet.h>
#include <utility>

#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"

namespace lockstep::studio {
namespace {

constexpr size_t kTokenBytes = 24;
constexpr auto kCodeLife = std::chrono::minutes(2);

// In a time that does not depend on where they differ.
bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

// "[::1]:80" -> "[::1]", "localhost:80" -> "localhost"
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string::npos || (host[0] == '[' && host.back() == ']')) return host;
  return host.substr(0, colon);
}

std::string in_brackets(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

bool is_address(const std::string& host) {
  in6_addr parsed{};
  if (host.starts_with('[') && host.ends_with(']'))
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &parsed) == 1;
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

Response page(unsigned status, const std::string& head, const std::string& text) {
  return {.status = status,
          .type = "text/html; charset=utf-8",
          .body = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Lockstep</title>" +
                  head + "</head><body><main><h1>Lockstep studio</h1><p>" + text +
                  "</p></main></body></html>\n"};
}

}  // namespace

Gate::Gate(std::string address, uint16_t port)
    : address_(std::move(address)),
      port_(std::to_string(port)),
      token_(random_hex(kTokenBytes)),
      cookie_("lockstep-" + port_) {
  names_ = {"127.0.0.1", "localhost", "[::1]", in_brackets(address_)};
  if (is_for_others()) names_.insert(names_.end(), {lower(host_name()), lower(full_host_name())});
}

std::optional<Response> Gate::stop(const Request& request) {
  const bool logs_in =
      request.path == "/" && (request.query.contains("token") || request.query.contains("code"));
  if (!logs_in && !has_cookie(request))
    return page(401, "", "Open the address that <code>lockstep studio</code> has printed: it has a token.");
  if (!is_known_host(request.host))
    return Response{.status = 403, .body = R"({"error":"this server does not answer to this name"})"};
  if (logs_in) return log_in(request);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if ((!request.origin.empty() || !reads) && request.origin != "http://" + request.host)
    return Response{.status = 403, .body = R"({"error":"only pages of this server may ask for this"})"};
  if (!reads && !request.content_type.starts_with("application/json"))
    return Response{.status = 415, .body = R"({"error":"the request must be JSON"})"};
  return std::nullopt;
}

// A page that goes on by itself, not a redirection: a browser sends a strict cookie only with requests that
// come from our own pages, also when somebody followed a link in another program.
std::optional<Response> Gate::log_in(const Request& request) {
  bool is_right = is_same_secret(request.value("token"), token_);
  if (!is_right) {
    const std::lock_guard lock(mutex_);
    is_right = !code_.empty() && Clock::now() < code_ends_ && is_same_secret(request.value("code"), code_);
    if (is_right) code_.clear();
  }
  if (!is_right) return page(401, "", "This token is of another start of <code>lockstep studio</code>.");
  Response response =
      page(200, "<meta http-equiv=\"refresh\" content=\"0;url=/\">", "<a href=\"/\">Continue</a>");
  response.headers.emplace_back("Set-Cookie", cookie_ + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict");
  return response;
}

// Behind a tunnel the port is another one.
bool Gate::is_known_host(const std::string& host) const {
  const std::string name = lower(without_port(host));
  if (is_for_others() && is_address(name)) return true;
  return !name.empty() && std::find(names_.begin(), names_.end(), name) != names_.end();
}

bool Gate::is_for_others() const { return address_ != "127.0.0.1" && address_ != "::1"; }

bool Gate::has_cookie(const Request& request) const {
  for (const std::string& part : split(request.cookies, ';')) {
    const size_t begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    const std::string cookie = part.substr(begin);
    if (cookie.starts_with(cookie_ + "=") &&
        is_same_secret(std::string_view(cookie).substr(cookie_.size() + 1), token_))
      return true;
  }
  return false;
}

std::string Gate::base() const {
  const bool is_any = address_ == "0.0.0.0" || address_ == "::";
  return "http://" + (is_any ? host_name() : in_brackets(address_)) + ":" + port_ + "/";
}

std::string Gate::address_with_token() const { return base() + "?token=" + token_; }

std::string Gate::address_with_code() {
  const std::lock_guard lock(mutex_);
  code_ = random_hex(kTokenBytes);
  code_ends_ = Clock::now() + kCodeLife;
  return base() + "?code=" + code_;
}

}  // namespace lockstep::studio
