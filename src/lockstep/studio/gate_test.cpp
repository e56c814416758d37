#include "lockstep/studio/gate.h"

#include <gtest/gtest.h>

#include "lockstep/base/host.h"

namespace lockstep::studio {
namespace {

Request with_token(const Gate& gate) {
  const std::string address = gate.address_with_token();
  Request request{.method = "GET", .path = "/", .host = "127.0.0.1:8761"};
  request.query["token"] = address.substr(address.find('=') + 1);
  return request;
}

std::string cookie_of(Gate& gate) {
  const auto answer = gate.stop(with_token(gate));
  EXPECT_EQ(answer->status, 200U);
  const std::string header = answer->headers.at(0).second;
  EXPECT_NE(header.find("HttpOnly; SameSite=Strict"), std::string::npos) << header;
  EXPECT_TRUE(header.starts_with("lockstep-8761=")) << header;
  return header.substr(0, header.find(';'));
}

unsigned status(Gate& gate, const Request& request) {
  const auto answer = gate.stop(request);
  return answer ? answer->status : 200;
}

TEST(Gate, LetsNobodyInWithoutTheCookie) {
  Gate gate("127.0.0.1", 8761);
  for (const char* path : {"/", "/main.js", "/api/runs", "/api/stream", "/nothing"})
    EXPECT_EQ(status(gate, {.method = "GET", .path = path, .host = "localhost:8761"}), 401U) << path;
  Request wrong{.method = "GET", .path = "/", .host = "localhost:8761"};
  wrong.query["token"] = "0123";
  EXPECT_EQ(status(gate, wrong), 401U);
  wrong.query = {{"code", ""}};
  EXPECT_EQ(status(gate, wrong), 401U);
  const std::string cookie = cookie_of(gate);
  Request request{.method = "GET", .path = "/", .host = "localhost:8761", .cookies = cookie + "0"};
  EXPECT_EQ(status(gate, request), 401U);
  request.cookies = "lockstep-8762" + cookie.substr(cookie.find('='));
  EXPECT_EQ(status(gate, request), 401U);
  request.cookies = "a=b; " + cookie;
  EXPECT_EQ(status(gate, request), 200U);
}

TEST(Gate, AnswersToNamesOfThisMachineOnly) {
  Gate gate("127.0.0.1", 8761);
  const std::string cookie = cookie_of(gate);
  const auto with_host = [&](const std::string& host) {
    return status(gate, {.method = "GET", .path = "/api/runs", .host = host, .cookies = cookie});
  };
  for (const char* host : {"127.0.0.1:8761", "localhost:9000", "LOCALHOST", "[::1]:8761"})
    EXPECT_EQ(with_host(host), 200U) << host;
  for (const char* host : {"", "evil.example:8761", "127.0.0.1.evil.example:8761", "localhost.:8761", "[::1"})
    EXPECT_EQ(with_host(host), 403U) << host;
}

TEST(Gate, OnAllNetworksItAnswersToAddressesAndToNamesOfThisMachine) {
  Gate gate("0.0.0.0", 8761);
  const std::string cookie = cookie_of(gate);
  const auto with_host = [&](const std::string& host) {
    return status(gate, {.method = "GET", .path = "/api/runs", .host = host, .cookies = cookie});
  };
  for (const std::string& host :
       {std::string("192.168.1.7:8761"), std::string("[fe80::1]:8761"), std::string("[2001:db8::7]"),
        host_name() + ":8761", std::string("localhost:9000")})
    EXPECT_EQ(with_host(host), 200U) << host;
  for (const char* host :
       {"", ":8761", "evil.example:8761", "192.168.1.7.evil.example:8761", "1.2.3", "[evil.example]:8761"})
    EXPECT_EQ(with_host(host), 403U) << host;
}

TEST(Gate, RefusesOtherOriginsAndFormsOfOtherPages) {
  Gate gate("127.0.0.1", 8761);
  Request request{.method = "POST",
                  .path = "/api/request",
                  .host = "127.0.0.1:8761",
                  .origin = "http://127.0.0.1:8761",
                  .cookies = cookie_of(gate),
                  .content_type = "application/json",
                  .body = "{}"};
  EXPECT_EQ(status(gate, request), 200U);
  for (const char* origin :
       {"", "null", "http://127.0.0.1:8762", "https://127.0.0.1:8761", "http://evil.example"}) {
    request.origin = origin;
    EXPECT_EQ(status(gate, request), 403U) << origin;
  }
  request.origin = "http://127.0.0.1:8761";
  request.content_type = "text/plain";
  EXPECT_EQ(status(gate, request), 415U);
  Request get{.method = "GET", .path = "/api/runs", .host = "127.0.0.1:8761", .cookies = request.cookies};
  get.origin = "http://evil.example";
  EXPECT_EQ(status(gate, get), 403U);
}

TEST(Gate, TakesACodeOnce) {
  Gate gate("127.0.0.1", 8761);
  const std::string address = gate.address_with_code();
  Request request{.method = "GET", .path = "/", .host = "127.0.0.1:8761"};
  request.query["code"] = address.substr(address.find('=') + 1);
  EXPECT_EQ(status(gate, request), 200U);
  EXPECT_EQ(status(gate, request), 401U);
}

TEST(Target, IsDecoded) {
  Request request;
  EXPECT_TRUE(read_target("/api/run?id=a%20b+c&x=&y", request));
  EXPECT_EQ(request.path, "/api/run");
  EXPECT_EQ(request.value("id"), "a b c");
  for (const char* bad : {"", "api", "*", "http://x/", "/a%", "/a%4", "/%zz", "/a?b=%q1"}) {
    Request other;
    EXPECT_FALSE(read_target(bad, other)) << bad;
  }
}

}  // namespace
}  // namespace lockstep::studio
