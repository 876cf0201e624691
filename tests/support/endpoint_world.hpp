// One real endpoint on a context and a settable clock of its own, for tests of the transport.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "provider/http_endpoint.hpp"
#include "tests/support/await.hpp"
#include "tests/support/raw_server.hpp"
#include "tests/support/slot_maker.hpp"

namespace sluice::testing {

/// What the answers of these tests say.
inline const std::string answer_body =
    R"({"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]})";

inline std::string with_length(const std::string& body, const std::string& status = "200 OK",
                               const std::string& fields = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline std::string in_chunks(const std::string& body, std::size_t size) {
  std::string out =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t from = 0; from < body.size(); from += size) {
    const std::string piece = body.substr(from, size);
    constexpr char digits[] = "0123456789abcdef";
    out += digits[piece.size() / 16 % 16];
    out += digits[piece.size() % 16];
    out += "\r\n" + piece + "\r\n";
  }
  return out + "0\r\n\r\n";
}

/// One request, one good answer.
inline script good_answer() {
  return {read_request(), send_bytes(with_length(answer_body))};
}

inline constexpr const char* test_key = "sk-test-4711-secret";

struct endpoint_world {
  explicit endpoint_world(const std::string& url) {
    options.url = provider::parse_base_url(url);
    options.api_key = test_key;
    options.now = [this] { return now; };
  }

  provider::http_endpoint& to() {
    if (!made_) made_ = std::make_unique<provider::http_endpoint>(context.get_executor(), options);
    return *made_;
  }

  static boost::asio::awaitable<provider::attempt_report> one_call(endpoint_world& w,
                                                                   std::string body) {
    provider::call what(std::move(body), "doc", 1);
    provider::readiness ready = co_await w.to().make_ready();
    if (auto* trouble = std::get_if<provider::attempt_report>(&ready))
      co_return std::move(*trouble);
    auto on = std::move(std::get<std::unique_ptr<provider::connection>>(ready));
    provider::slot turn = w.slots.make();
    co_return co_await w.to().send(std::move(turn), std::move(on), what);
  }

  /// A connection, then a call on it.
  provider::attempt_report call(const std::string& body = R"({"model":"m"})") {
    return run_to_end(context, one_call(*this, body));
  }

  /// That many at once.
  std::vector<provider::attempt_report> calls(std::size_t count,
                                              const std::string& body = R"({"model":"m"})") {
    std::vector<provider::attempt_report> out;
    for (std::size_t i = 0; i < count; ++i)
      boost::asio::co_spawn(context, one_call(*this, body),
                            [&](std::exception_ptr e, provider::attempt_report r) {
                              if (e) std::rethrow_exception(e);
                              out.push_back(std::move(r));
                            });
    context.restart();
    context.run();
    return out;
  }

  /// A connection; throws when there is none.
  std::unique_ptr<provider::connection> connect() {
    provider::readiness ready = run_to_end(context, to().make_ready());
    return std::move(std::get<std::unique_ptr<provider::connection>>(ready));
  }

  /// The endpoint's life is over.
  void end() { made_.reset(); }

  boost::asio::io_context context{1};
  instant now{std::chrono::hours(1)};
  provider::http_options options;
  slot_maker_for_tests slots;

 private:
  std::unique_ptr<provider::http_endpoint> made_;
};

}  // namespace sluice::testing
