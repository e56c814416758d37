#include "lockstep/studio/server.h"

#include <array>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::studio {
namespace {

constexpr int kSlow = 300;  // more than the server keeps

Descriptor connected(uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void send_text(const Descriptor& socket, std::string_view text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// What comes before `end` is found; nothing if it does not come.
std::string read_until(const Descriptor& socket, std::string_view end) {
  std::string text;
  std::array<char, 4096> piece;
  while (text.find(end) == std::string::npos) {
    const ssize_t got = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return "";
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

Response answer(const Request& request) {
  if (!request.body.empty()) return {.type = "text/plain", .body = std::to_string(request.body.size())};
  if (request.path == "/stream") return {.type = "text/event-stream", .feed = [] { return "data: 1\n\n"; }};
  return {.type = "text/plain", .body = "the page"};
}

TEST(Server, AnswersWhileHundredsOfConnectionsSendTheirHeadersSlowly) {
  Server server("127.0.0.1", 0);
  server.start([](const Request&) { return Answering{.answer = answer}; });
  const Descriptor stream = connected(server.port());
  send_text(stream, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(read_until(stream, "data: 1"), "");
  std::vector<Descriptor> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.push_back(connected(server.port()));
    if (i % 2 == 0) send_text(slow.back(), "G");
  }
  for (int i = 0; i < 3; ++i) {
    const Descriptor browser = connected(server.port());
    send_text(browser, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(read_until(browser, "the page"), "") << i;
    send_text(browser, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");  // on the same connection
    EXPECT_NE(read_until(browser, "the page"), "") << i;
  }
  EXPECT_NE(read_until(stream, "data: 1"), "");
}

TEST(Server, AnswersWhileOthersWaitForSlowCommands) {
  std::promise<void> command;
  const std::shared_future<void> end = command.get_future().share();
  Server server("127.0.0.1", 0);
  server.start([end](const Request& head) {
    return Answering{.answer =
                         [end](const Request& request) {
                           if (request.path == "/slow") end.wait();
                           return answer(request);
                         },
                     .is_slow = head.path == "/slow"};
  });
  std::vector<Descriptor> waiting;
  const auto ask_for_slow = [&] {
    waiting.push_back(connected(server.port()));
    send_text(waiting.back(), "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  };
  for (int i = 0; i < 64; ++i) ask_for_slow();
  for (int i = 0; i < 3; ++i) {
    const Descriptor browser = connected(server.port());
    send_text(browser, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(read_until(browser, "the page"), "") << i;
  }
  command.set_value();
  for (const Descriptor& one : waiting) EXPECT_NE(read_until(one, "the page"), "");
}

TEST(Server, ReadsNoBodyOfARequestThatIsRefused) {
  Server server("127.0.0.1", 0);
  server.start([](const Request& head) {
    return head.path == "/refused" ? always({.status = 401, .body = "refused"}) : Answering{.answer = answer};
  });
  const Descriptor stranger = connected(server.port());
  send_text(stranger, "POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n{");
  EXPECT_NE(read_until(stranger, "refused"), "") << "no byte of its body is waited for";
  const Descriptor browser = connected(server.port());
  send_text(browser, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_TRUE(read_until(browser, "\r\n\r\n5").ends_with("\r\n\r\n5"));
  send_text(browser, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");  // on the same connection
  EXPECT_NE(read_until(browser, "the page"), "");
}

TEST(Server, SaysThatABodyIsTooLarge) {
  constexpr size_t kBytes = size_t{9} << 20;
  Server server("127.0.0.1", 0);
  server.start([](const Request&) { return Answering{.answer = answer}; });
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  const Descriptor whole = connected(server.port());
  send_text(whole, head + "Content-Length: " + std::to_string(kBytes) + "\r\n\r\n");
  send_text(whole, std::string(kBytes, 'x'));  // as browsers do, which read the answer then
  EXPECT_NE(read_until(whole, "the 8 MiB allowed"), "");
  const Descriptor chunked = connected(server.port());
  send_text(chunked, head + "Transfer-Encoding: chunked\r\n\r\nffffff\r\n");
  EXPECT_NE(read_until(chunked, "the 8 MiB allowed"), "");
}

TEST(Server, SaysThatHeadersAreTooLarge) {
  Server server("127.0.0.1", 0);
  server.start([](const Request&) { return Answering{.answer = answer}; });
  const std::string much(size_t{70} << 10, 'x');
  const Descriptor field = connected(server.port());
  send_text(field, "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + much + "\r\n\r\n");
  const std::string refusal = read_until(field, "the 64 KiB allowed");
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 431 ")) << refusal;
  const Descriptor target = connected(server.port());
  send_text(target, "GET /?" + much + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(read_until(target, "the 64 KiB allowed"), "");
  const Descriptor many = connected(server.port());  // each of them is short
  send_text(many, "GET / HTTP/1.1\r\nHost: localhost\r\n");
  for (int i = 0; i < 700; ++i) send_text(many, "X-Field: " + std::string(100, 'x') + "\r\n");
  EXPECT_NE(read_until(many, "the 64 KiB allowed"), "");
}

TEST(Server, SaysThatARequestIsNoHttp) {
  Server server("127.0.0.1", 0);
  server.start([](const Request&) { return Answering{.answer = answer}; });
  constexpr std::string_view kPost = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& text :
       {std::string("\x16\x03\x01\x02\x00\x01", 6), std::string("hello\r\n\r\n"),
        std::string("GET / HTTP/9\r\n\r\n"), std::string(kPost) + "Content-Length: many\r\n\r\n",
        std::string(kPost) + "Transfer-Encoding: chunked\r\n\r\nno number\r\n"}) {
    const Descriptor stranger = connected(server.port());
    send_text(stranger, text);
    const std::string refusal = read_until(stranger, "the request is no HTTP");
    EXPECT_TRUE(refusal.starts_with("HTTP/1.1 400 ")) << text << refusal;
  }
}

TEST(Server, EndsWhileSlowRequestsWaitForAThread) {
  std::promise<void> command;
  const std::shared_future<void> end = command.get_future().share();
  Server server("127.0.0.1", 0);
  server.start([end](const Request&) {
    return Answering{.answer =
                         [end](const Request& request) {
                           end.wait();
                           return answer(request);
                         },
                     .is_slow = true};
  });
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 100; ++i) {
    waiting.push_back(connected(server.port()));
    send_text(waiting.back(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  // Of these some are refused, so that there is room for others.
  bool is_refused = false;
  for (const Descriptor& one : waiting) {
    pollfd wait{one.get(), POLLIN, 0};
    is_refused = is_refused || (::poll(&wait, 1, 20) > 0 && !read_until(one, "too many commands").empty());
  }
  EXPECT_TRUE(is_refused);
  command.set_value();
  server.stop();
}

}  // namespace
}  // namespace lockstep::studio
