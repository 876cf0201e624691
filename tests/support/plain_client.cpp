#include "tests/support/plain_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

namespace sluice::testing {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

struct plain_client::impl {
  impl(std::uint16_t port, const std::string& host) : at(asio::ip::make_address(host), port) {
    connect();
  }

  void connect() {
    stream.emplace(context);
    buffer.clear();
    run([&](auto done) { stream->async_connect(at, done); });
    stream->socket().set_option(tcp::no_delay(true));
    ++connections;
  }

  /// Runs one operation to its end; throws its error.
  template <class Start>
  void run(Start start) {
    error_code result;
    stream->expires_after(std::chrono::seconds(30));
    start([&](error_code ec, std::size_t = 0) { result = ec; });
    context.restart();
    context.run();
    if (result) throw boost::system::system_error(result);
  }

  asio::io_context context{1};
  tcp::endpoint at;
  std::optional<beast::tcp_stream> stream;
  beast::flat_buffer buffer;
  unsigned connections = 0;
  bool closed = false;
};

std::string plain_response::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string() : found->second;
}

plain_client::plain_client(std::uint16_t port, const std::string& host)
    : impl_(std::make_unique<impl>(port, host)) {}
plain_client::~plain_client() = default;
plain_client::plain_client(plain_client&&) noexcept = default;

plain_response plain_client::get(const std::string& target, const plain_headers& headers) {
  return request("GET", target, {}, headers);
}

plain_response plain_client::post(const std::string& target, const std::string& body,
                                  const plain_headers& headers) {
  return request("POST", target, body, headers);
}

plain_response plain_client::request(const std::string& method, const std::string& target,
                                     const std::string& body, const plain_headers& headers) {
  if (impl_->closed) impl_->connect();
  impl_->closed = false;
  http::request<http::string_body> message;
  message.version(11);
  message.method_string(method);
  message.target(target);
  message.set(http::field::host, "localhost");
  if (!body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : headers) message.set(name, value);
  message.body() = body;
  message.prepare_payload();
  impl_->run([&](auto done) { http::async_write(*impl_->stream, message, done); });
  return read_response();
}

void plain_client::send_raw(const std::string& bytes) {
  impl_->run([&](auto done) { asio::async_write(*impl_->stream, asio::buffer(bytes), done); });
}

plain_response plain_client::read_response() {
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::uint64_t{64} << 20U);
  // Whatever goes wrong, the connection is of no further use.
  impl_->closed = true;
  impl_->run([&](auto done) { http::async_read(*impl_->stream, impl_->buffer, parser, done); });
  plain_response response;
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    response.headers.emplace(std::move(name), std::string(field.value()));
  }
  response.keep_alive = parser.keep_alive();
  response.body = std::move(parser.get().body());
  impl_->closed = !response.keep_alive;
  return response;
}

std::string plain_client::read_until(const std::string& text) {
  std::string all;
  impl_->run([&](auto done) {
    asio::async_read_until(*impl_->stream, asio::dynamic_buffer(all), text, done);
  });
  return all;
}

std::string plain_client::read_to_end() {
  std::string all(beast::buffers_to_string(impl_->buffer.data()));
  std::string more;
  try {
    impl_->run(
        [&](auto done) { asio::async_read(*impl_->stream, asio::dynamic_buffer(more), done); });
  } catch (const boost::system::system_error& e) {
    const bool ended = e.code() == asio::error::eof || e.code() == asio::error::connection_reset;
    if (!ended) throw;
  }
  impl_->closed = true;
  return all + more;
}

void plain_client::hang_up() {
  impl_->stream->close();
  impl_->closed = true;
}

unsigned plain_client::connections() const {
  return impl_->connections;
}

}  // namespace sluice::testing
