#include "lockstep/studio/server.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/thread_name.h"

namespace lockstep::studio {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using tcp = asio::ip::tcp;

constexpr int kThreads = 8;
constexpr int kSlowThreads = 16;  // answers that wait for a command or a disk run on them, some for minutes
constexpr int kMostSlow = 64;     // requests for these threads at once; fewer than there may be connections
constexpr int kMostConnections = 256;
constexpr uint64_t kMostBodyBytes = uint64_t{8} << 20;
constexpr uint32_t kMostHeaderBytes = 64 << 10;
constexpr size_t kFirstBytes = 4096;                     // read at once
constexpr auto kHeaderLimit = std::chrono::seconds(10);  // for all of a request's headers
constexpr auto kReadLimit = std::chrono::seconds(60);    // for its body; also between two requests
constexpr auto kWriteLimit = std::chrono::seconds(60);   // for each piece that the system takes
constexpr auto kEndLimit = std::chrono::seconds(5);      // for what still comes after the last answer
constexpr auto kFeedInterval = std::chrono::milliseconds(100);
constexpr auto kHeartbeat = std::chrono::seconds(15);  // shows that a reader has gone

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

// Whether the other side sends what is no HTTP, and may still read an answer.
bool is_no_http(const boost::system::error_code& code) {
  return code.category() == make_error_code(http::error::bad_method).category() &&
         code != http::error::end_of_stream && code != http::error::partial_message;
}

bool read_head(const http::request<http::string_body>& from, Request& request) {
  request.method = text_of(from.method_string());
  request.host = text_of(from[http::field::host]);
  request.origin = text_of(from[http::field::origin]);
  request.cookies = text_of(from[http::field::cookie]);
  request.content_type = text_of(from[http::field::content_type]);
  return read_target({from.target().data(), from.target().size()}, request);
}

template <class Fields>
void set_headers(Fields& header, const Response& response) {
  header.set(http::field::content_type, response.type);
  header.set("Content-Security-Policy", kPolicy);
  header.set("X-Content-Type-Options", "nosniff");
  header.set("Referrer-Policy", "no-referrer");
  header.set("Cross-Origin-Resource-Policy", "same-origin");
  header.set("Cross-Origin-Opener-Policy", "same-origin");
  header.set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : response.headers) header.set(name, value);
}

}  // namespace

class Server::State {
 public:
  State(const std::string& address, uint16_t port) : acceptor_(context_) {
    const std::string where = address + ":" + std::to_string(port);
    boost::system::error_code code;
    const auto parsed = asio::ip::make_address(address, code);
    if (code)
      throw Error(ErrorCode::invalid_option, quote(address) + " is not an address of this machine",
                  "use 127.0.0.1, or an address of a network card");
    const tcp::endpoint endpoint(parsed, port);
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.set_option(asio::socket_base::reuse_address(true), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code) throw errno_error(code.value(), "listen at", where);
  }
  ~State() { stop(); }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void start(Find find) {
    find_ = std::move(find);
    asio::co_spawn(context_, accept_all(), asio::detached);
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] {
        name_this_thread("studio");
        context_.run();
      });
    }
  }

  void stop() {
    context_.stop();
    threads_.clear();
    slow_threads_.stop();
    slow_threads_.join();
  }

 private:
  using Parser = http::request_parser<http::string_body>;
  struct Question {
    Request request{};
    Answering answering{};
  };

  // Only its strand uses it.
  struct Connection {
    explicit Connection(tcp::socket socket) : stream(std::move(socket)) {}
    beast::tcp_stream stream;
    bool waits = false;  // for a request
  };

  asio::awaitable<void> accept_all() {
    asio::steady_timer timer(context_);
    while (true) {
      boost::system::error_code code;
      // With a strand for each connection, its timer and its socket are used by one thread at a time.
      tcp::socket socket(asio::make_strand(context_));
      co_await acceptor_.async_accept(socket, asio::redirect_error(use_awaitable, code));
      if (code) {  // such as no descriptors
        timer.expires_after(kFeedInterval);
        co_await timer.async_wait(asio::redirect_error(use_awaitable, code));
        continue;
      }
      if (connections_ >= kMostConnections && !close_longest_waiting()) continue;
      const auto strand = socket.get_executor();
      asio::co_spawn(strand, serve(std::make_shared<Connection>(std::move(socket))), asio::detached);
    }
  }

  asio::awaitable<void> serve(std::shared_ptr<Connection> connection) {
    const Counted counted(connections_);
    beast::tcp_stream& stream = connection->stream;
    try {
      beast::flat_buffer buffer;
      bool goes_on = true;
      stream.expires_after(kHeaderLimit);
      while (goes_on) {
        Parser parser;
        Question question;
        co_await read(connection, buffer, parser, question);
        goes_on = co_await answer(stream, parser, question);
        stream.expires_after(kReadLimit);
      }
      co_await end(connection, buffer);
    } catch (const std::exception&) {  // the other side has gone
    }
  }

  // Begins with the time that the connection may be silent.
  asio::awaitable<void> read(std::shared_ptr<Connection> connection, beast::flat_buffer& buffer,
                             Parser& parser, Question& question) {
    const Waiting waiting(*this, connection);
    beast::tcp_stream& stream = connection->stream;
    if (buffer.size() == 0)
      buffer.commit(co_await stream.async_read_some(buffer.prepare(kFirstBytes), use_awaitable));
    stream.expires_after(kHeaderLimit);
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(std::numeric_limits<uint64_t>::max());  // the head decides
    boost::system::error_code code;
    co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(use_awaitable, code));
    if (code == http::error::header_limit) {
      question.answering =
          always({.status = 431,
                  .body = R"({"error":"the headers of the request are larger than the 64 KiB allowed"})"});
      co_return;
    }
    if (is_no_http(code)) co_return refuse_no_http(question);
    if (code) throw boost::system::system_error(code);
    find_answer_to(parser.get(), question);
    if (question.answering.ignores_body || parser.is_done()) co_return;
    if (parser.content_length().value_or(0) > kMostBodyBytes) {
      code = http::error::body_limit;
    } else {
      parser.body_limit(kMostBodyBytes);
      stream.expires_after(kReadLimit);
      co_await http::async_read(stream, buffer, parser, asio::redirect_error(use_awaitable, code));
    }
    if (code == http::error::body_limit)
      question.answering =
          always({.status = 413, .body = R"({"error":"the request is larger than the 8 MiB allowed"})"});
    else if (is_no_http(code))
      refuse_no_http(question);
    else if (code)
      throw boost::system::system_error(code);
    question.request.body = std::move(parser.get().body());
  }

  static void refuse_no_http(Question& question) {
    question.answering =
        always({.status = 400,
                .body = R"({"error":"the request is no HTTP","hint":"the address begins with http://"})"});
  }

  void find_answer_to(const http::request<http::string_body>& message, Question& question) const {
    question.answering = read_head(message, question.request)
                             ? find_(question.request)
                             : always({.status = 400, .body = R"({"error":"no such address"})"});
  }

  // What still comes is read and dropped: to close a connection with unread bytes may lose the answer.
  asio::awaitable<void> end(std::shared_ptr<Connection> connection, beast::flat_buffer& buffer) {
    const Waiting waiting(*this, connection);
    beast::tcp_stream& stream = connection->stream;
    boost::system::error_code code;
    stream.socket().shutdown(tcp::socket::shutdown_send, code);
    stream.expires_after(kEndLimit);
    while (!code) {
      buffer.clear();
      co_await stream.async_read_some(buffer.prepare(kFirstBytes), asio::redirect_error(use_awaitable, code));
    }
  }

  // So that connections whose requests do not come leave room for others. False if there is none.
  bool close_longest_waiting() {
    std::shared_ptr<Connection> longest;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return false;
      longest = waiting_.front();
      waiting_.pop_front();
    }
    asio::post(longest->stream.get_executor(), [longest] {
      if (longest->waits) longest->stream.close();
    });
    return true;
  }

  static Response answer_of(const Question& question) {
    try {
      return question.answering.answer(question.request);
    } catch (...) {
      return error_response();
    }
  }

  static asio::awaitable<Response> slow_answer_of(const Question& question) {
    Response response = answer_of(question);
    co_return response;
  }

  asio::awaitable<Response> response_to(const Question& question) {
    Response response;
    if (!question.answering.is_slow) {
      response = answer_of(question);
    } else if (const Counted counted(slow_); slow_ > kMostSlow) {
      response.status = 503;
      response.body =
          R"({"error":"studio waits for too many commands and folders at once","hint":"try again in a minute"})";
    } else {
      response = co_await asio::co_spawn(slow_threads_, slow_answer_of(question), use_awaitable);
    }
    co_return response;
  }

  // Returns whether the connection goes on.
  asio::awaitable<bool> answer(beast::tcp_stream& stream, const Parser& parser, const Question& question) {
    Response response = co_await response_to(question);
    if (response.feed) {
      co_await send_feed(stream, response);
      co_return false;
    }
    const http::request<http::string_body>& message = parser.get();
    http::response<http::string_body> reply(static_cast<http::status>(response.status), message.version());
    set_headers(reply, response);
    reply.keep_alive(message.keep_alive() && parser.is_done());
    reply.content_length(response.body.size());
    if (message.method() != http::verb::head) reply.body() = std::move(response.body);
    http::response_serializer<http::string_body> serializer(reply);
    while (!serializer.is_done()) {
      stream.expires_after(kWriteLimit);
      co_await http::async_write_some(stream, serializer, use_awaitable);
    }
    co_return reply.keep_alive();
  }

  asio::awaitable<void> send_feed(beast::tcp_stream& stream, const Response& response) {
    http::response<http::empty_body> head(http::status::ok, 11);
    set_headers(head, response);
    head.keep_alive(false);
    http::response_serializer<http::empty_body> serializer(head);
    stream.expires_after(kWriteLimit);
    co_await http::async_write_header(stream, serializer, use_awaitable);
    asio::steady_timer timer(stream.get_executor());
    auto last = std::chrono::steady_clock::now() - kHeartbeat;
    while (true) {
      std::string text = response.feed();
      const auto now = std::chrono::steady_clock::now();
      if (text.empty() && now - last >= kHeartbeat) text = ":\n\n";
      if (!text.empty()) {
        last = now;
        stream.expires_after(kWriteLimit);
        co_await asio::async_write(stream, asio::buffer(text), use_awaitable);
      }
      timer.expires_after(kFeedInterval);
      co_await timer.async_wait(use_awaitable);
    }
  }

  struct Counted {
    explicit Counted(std::atomic<int>& number) : count(number) { ++count; }
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    std::atomic<int>& count;
  };

  // A connection that waits for a request.
  struct Waiting {
    Waiting(State& server, std::shared_ptr<Connection> waiting)
        : state(server), connection(std::move(waiting)) {
      connection->waits = true;
      const std::lock_guard lock(state.mutex_);
      state.waiting_.push_back(connection);
    }
    ~Waiting() {
      connection->waits = false;
      const std::lock_guard lock(state.mutex_);
      state.waiting_.remove(connection);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    State& state;
    const std::shared_ptr<Connection> connection;
  };

  Find find_;
  // These outlive the coroutines, which the context destroys.
  std::atomic<int> connections_ = 0;
  std::atomic<int> slow_ = 0;
  std::mutex mutex_;
  std::list<std::shared_ptr<Connection>> waiting_;  // the longest first
  asio::io_context context_{kThreads};
  tcp::acceptor acceptor_;
  asio::thread_pool slow_threads_{kSlowThreads};  // its coroutines have sockets of the context
  std::vector<std::jthread> threads_;
};

Server::Server(const std::string& address, uint16_t port) : state_(std::make_unique<State>(address, port)) {}
Server::~Server() = default;
uint16_t Server::port() const { return state_->port(); }
void Server::start(Find find) { state_->start(std::move(find)); }
void Server::stop() { state_->stop(); }

}  // namespace lockstep::studio
