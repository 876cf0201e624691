#include "app/gate/listener.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <list>

#include "app/gate/answer_writer.hpp"
#include "app/gate/hang_up_watch.hpp"
#include "app/settings.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using plain_stream = beast::tcp_stream;
using tls_stream = beast::ssl_stream<beast::tcp_stream>;
using parser = http::request_parser<http::string_body>;
using response = http::response<http::string_body>;

constexpr auto token = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t most_header = 8192;
constexpr std::chrono::seconds linger_time{1};
constexpr std::size_t most_lingering = 65536;
constexpr std::chrono::milliseconds pause_when_full{50};

[[noreturn]] void cannot(const std::string& text) {
  throw settings_error(retry::exit_code::configuration, text);
}

// One connection, as those who would end it see it.
struct session {
  beast::tcp_stream* stream = nullptr;
  bool answering = false;
};

class entered {
 public:
  entered(session& in, beast::tcp_stream& stream) : in_(in) { in_.stream = &stream; }
  ~entered() { in_.stream = nullptr; }
  entered(const entered&) = delete;
  entered& operator=(const entered&) = delete;

 private:
  session& in_;
};

caller caller_of(const parser& p) {
  const auto& m = p.get();
  caller who;
  who.target = m.target();
  who.host = m[http::field::host];
  who.one_host = m.count(http::field::host) == 1;
  who.token = m["X-Sluice-Token"];
  who.authorization = m[http::field::authorization];
  who.from_a_page = m.count(http::field::origin) > 0;
  return who;
}

response to_http(const gate_response& r, unsigned version, bool keep) {
  response out;
  out.version(version);
  out.result(static_cast<unsigned>(r.status));
  out.set(http::field::content_type, r.type);
  out.set(http::field::cache_control, "no-store");
  if (!r.allow.empty()) out.set(http::field::allow, r.allow);
  for (const auto& [name, value] : r.headers) out.set(name, value);
  out.body() = r.body;
  out.keep_alive(keep);
  out.prepare_payload();
  return out;
}

provider::header_fields fields_of(const parser& p) {
  provider::header_fields fields;
  for (const auto& f : p.get()) fields.emplace_back(f.name_string(), f.value());
  return fields;
}

// So many bytes of a body are in memory.
class held_bytes {
 public:
  held_bytes(std::size_t& total, std::size_t mine) : total_(total), mine_(mine) { total_ += mine_; }
  ~held_bytes() { total_ -= mine_; }
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;

 private:
  std::size_t& total_;
  std::size_t mine_;
};

gate_response refusal_of(const error_code& ec) {
  if (ec == http::error::body_limit)
    return problem(413, "body_too_large", "bodies have at most 4096 bytes here");
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return problem(431, "header_too_large", "headers have at most 8192 bytes here");
  return problem(400, "not_http", "this is not HTTP: " + ec.message());
}

// Whether whoever sent this may still read an answer.
bool answerable(const error_code& ec) {
  static const auto& ours = http::make_error_code(http::error::bad_method).category();
  return ec.category() == ours && ec != http::error::end_of_stream &&
         ec != http::error::partial_message;
}

}  // namespace

struct listener::impl {
  impl(asio::io_context& in, listener_options given, routes& to, upstream* calls_to)
      : context(in),
        options(std::move(given)),
        answers(to),
        calls(calls_to),
        acceptor(in),
        pause(in) {
    if (!options.tls_cert.empty()) set_up_tls();
    open();
    asio::co_spawn(context, accept(), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  }

  void set_up_tls();
  void open();
  asio::awaitable<void> accept();
  void start(tcp::socket socket);
  asio::awaitable<void> serve(tcp::socket socket, session& mine);
  template <class Stream>
  asio::awaitable<void> converse(Stream& stream, session& mine);
  template <class Stream>
  asio::awaitable<bool> one_request(Stream& stream, session& mine, beast::flat_buffer& buffer,
                                    bool first);
  template <class Stream>
  asio::awaitable<bool> pass_on(Stream& stream, beast::flat_buffer& buffer, parser& p);
  template <class Stream>
  asio::awaitable<bool> finish(Stream& stream, gate_response result, const parser* p, bool keep);
  template <class Stream>
  asio::awaitable<bool> read_body(Stream& stream, beast::flat_buffer& buffer, parser& p,
                                  std::chrono::nanoseconds within);
  template <class Stream>
  asio::awaitable<gate_response> answer(Stream& stream, const gate_request& request);
  template <class Stream>
  asio::awaitable<bool> send(Stream& stream, response r);
  template <class Stream>
  asio::awaitable<void> linger(Stream& stream);

  asio::io_context& context;
  listener_options options;
  routes& answers;
  upstream* calls;
  std::size_t held = 0;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  tcp::endpoint local;
  std::optional<asio::ssl::context> tls;
  std::list<session> sessions;
  bool stopped = false;
};

void listener::impl::set_up_tls() {
  tls.emplace(asio::ssl::context::tls_server);
  error_code ec;
  tls->set_options(asio::ssl::context::no_sslv2 | asio::ssl::context::no_sslv3 |
                   asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  tls->use_certificate_chain_file(options.tls_cert, ec);
  if (ec)
    cannot("--tls-cert " + options.tls_cert + ": cannot be used: " + ec.message() +
           "; name a readable file with the certificate chain in PEM form");
  tls->use_private_key_file(options.tls_key, asio::ssl::context::pem, ec);
  if (ec)
    cannot("--tls-key " + options.tls_key + ": cannot be used: " + ec.message() +
           "; name a readable file with the certificate's key in PEM form");
}

void listener::impl::open() {
  error_code ec;
  const auto address = asio::ip::make_address(options.host, ec);
  const std::string shown = options.host + ":" + std::to_string(options.port);
  if (ec) cannot("cannot listen on " + shown + ": not an address; use one such as 127.0.0.1");
  const tcp::endpoint at(address, options.port);
  try {
    acceptor.open(at.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(at);
    acceptor.listen();
    local = acceptor.local_endpoint();
  } catch (const boost::system::system_error& e) {
    cannot("cannot listen on " + shown + ": " + e.code().message() +
           "; stop what uses it, or listen elsewhere (port 0 takes a free one)");
  }
}

asio::awaitable<void> listener::impl::accept() {
  while (!stopped) {
    auto [ec, socket] = co_await acceptor.async_accept(token);
    if (stopped) break;
    if (ec) {
      // Out of file descriptors, most likely: go on as soon as some are closed.
      pause.expires_after(pause_when_full);
      co_await pause.async_wait(token);
      continue;
    }
    // One too many is closed at once; its client comes back.
    if (sessions.size() >= options.most_connections) continue;
    start(std::move(socket));
  }
}

void listener::impl::start(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  sessions.emplace_back();
  const auto mine = std::prev(sessions.end());
  // What a connection breaks of is its own: the others go on.
  asio::co_spawn(context, serve(std::move(socket), *mine),
                 [this, mine](std::exception_ptr) { sessions.erase(mine); });
}

asio::awaitable<void> listener::impl::serve(tcp::socket socket, session& mine) {
  if (!tls) {
    plain_stream stream(std::move(socket));
    const entered here(mine, stream);
    co_await converse(stream, mine);
    co_return;
  }
  tls_stream stream(std::move(socket), *tls);
  const entered here(mine, stream.next_layer());
  mine.stream->expires_after(options.header_time);
  const auto [ec] = co_await stream.async_handshake(asio::ssl::stream_base::server, token);
  if (!ec) {
    co_await converse(stream, mine);
    mine.stream->expires_after(linger_time);
    co_await stream.async_shutdown(token);
  }
}

template <class Stream>
asio::awaitable<void> listener::impl::converse(Stream& stream, session& mine) {
  beast::flat_buffer buffer(most_header + most_body);
  bool first = true;
  while (!stopped) {
    const bool more = co_await one_request(stream, mine, buffer, first);
    if (!more) break;
    first = false;
  }
}

template <class Stream>
asio::awaitable<bool> listener::impl::one_request(Stream& stream, session& mine,
                                                  beast::flat_buffer& buffer, bool first) {
  auto& lowest = beast::get_lowest_layer(stream);
  parser p;
  p.header_limit(most_header);
  // What the body may have is known when the header is.
  p.body_limit(most_call_body);
  lowest.expires_after(first ? options.header_time : options.idle_time);
  mine.answering = false;
  auto [ec, size] = co_await http::async_read_header(stream, buffer, p, token);
  mine.answering = true;
  if (ec && !answerable(ec)) co_return false;
  if (ec) co_return co_await finish(stream, refusal_of(ec), nullptr, false);
  const bool call = calls != nullptr && is_completions(p.get().target());
  if (const auto refused = check_caller(caller_of(p), options.rules)) {
    gate_response no =
        call ? openai_problem(refused->status, refused->error, refused->message, false)
             : problem(refused->status, refused->error, refused->message);
    // A browser asks for a password only when it is offered this scheme.
    if (refused->status == 401)
      no.headers.emplace_back("WWW-Authenticate",
                              p.get().target() == page_target
                                  ? R"(Basic realm="sluice gate", charset="UTF-8")"
                                  : "Bearer");
    co_return co_await finish(stream, std::move(no), &p, false);
  }
  if (call) co_return co_await pass_on(stream, buffer, p);
  const bool too_large = p.content_length() && *p.content_length() > most_body;
  p.body_limit(most_body);
  const bool whole = !too_large && co_await read_body(stream, buffer, p, options.body_time);
  if (!whole && !lowest.socket().is_open()) co_return false;
  if (!whole)
    co_return co_await finish(
        stream, problem(413, "body_too_large", "bodies have at most 4096 bytes here"), &p, false);
  gate_request request;
  request.method = p.get().method_string();
  request.target = p.get().target();
  request.body = std::move(p.get().body());
  gate_response result = co_await answer(stream, request);
  const bool keep = p.get().keep_alive() && !stopped && request.method != "HEAD";
  co_return co_await finish(stream, std::move(result), &p, keep);
}

// Returns whether another request may follow.
template <class Stream>
asio::awaitable<bool> listener::impl::finish(Stream& stream, gate_response result, const parser* p,
                                             bool keep) {
  response out = to_http(result, p == nullptr ? 11 : p->get().version(), keep);
  // Its length has been said.
  if (p != nullptr && p->get().method() == http::verb::head) out.body().clear();
  const bool sent = co_await send(stream, std::move(out));
  if (!sent) {
    answers.unsent(result);
    co_return false;
  }
  if (!keep) co_await linger(stream);
  co_return keep;
}

// The body is read before a turn is asked for: a slot must be used at once, and a caller that hangs
// up is noticed only when nothing of it is left to read.
template <class Stream>
asio::awaitable<bool> listener::impl::pass_on(Stream& stream, beast::flat_buffer& buffer,
                                              parser& p) {
  auto& lowest = beast::get_lowest_layer(stream);
  if (p.get().method() != http::verb::post) {
    gate_response no = openai_problem(405, "method_refused", "only POST is passed on", false);
    no.allow = "POST";
    co_return co_await finish(stream, std::move(no), &p, false);
  }
  const std::size_t size =
      p.content_length() ? static_cast<std::size_t>(*p.content_length()) : most_call_body;
  if (held + size > options.most_held)
    co_return co_await finish(
        stream, openai_problem(503, "too_much_waiting", "too many large calls are waiting", true),
        &p, false);
  const held_bytes mine(held, size);
  const bool whole = co_await read_body(stream, buffer, p, options.call_body_time);
  if (!whole && !lowest.socket().is_open()) co_return false;
  if (!whole)
    co_return co_await finish(
        stream, openai_problem(413, "body_too_large", "calls have at most 16 MiB here", false), &p,
        false);
  upstream_call call;
  call.target = p.get().target();
  call.fields = fields_of(p);
  call.body = std::move(p.get().body());
  error_code unknown;
  call.client = lowest.socket().remote_endpoint(unknown).address().to_string();
  lowest.expires_never();
  const bool keep = p.get().keep_alive() && !stopped;
  answer_writer<Stream> writer(stream, p.get().version(), keep);
  upstream_outcome result;
  {
    hang_up_watch hung_up(lowest.socket(), tls.has_value());
    result = co_await calls->pass(call, hung_up.watch(), writer);
    if (hung_up.watch().gone()) co_return false;
  }
  if (result.own && !writer.begun())
    co_return co_await finish(stream, std::move(*result.own), &p, keep);
  // An answer that broke off must not look whole.
  if (!result.whole) lowest.socket().close(unknown);
  if (result.whole && !writer.keep()) co_await linger(stream);
  co_return result.whole&& writer.keep();
}

template <class Stream>
asio::awaitable<bool> listener::impl::read_body(Stream& stream, beast::flat_buffer& buffer,
                                                parser& p, std::chrono::nanoseconds within) {
  auto& lowest = beast::get_lowest_layer(stream);
  lowest.expires_after(within);
  if (!p.is_done() && beast::iequals(p.get()[http::field::expect], "100-continue")) {
    static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto [error, n] = co_await asio::async_write(stream, asio::buffer(go_on), token);
    if (error) co_return false;
  }
  if (p.is_done()) co_return true;
  const auto [ec, size] = co_await http::async_read(stream, buffer, p, token);
  if (ec && ec != http::error::body_limit) lowest.socket().close();
  co_return !ec;
}

template <class Stream>
asio::awaitable<gate_response> listener::impl::answer(Stream& stream, const gate_request& request) {
  auto& lowest = beast::get_lowest_layer(stream);
  lowest.expires_never();
  hang_up_watch hung_up(lowest.socket(), tls.has_value());
  gate_response result = co_await answers.answer(request, hung_up.watch());
  co_return result;
}

template <class Stream>
asio::awaitable<bool> listener::impl::send(Stream& stream, response r) {
  beast::get_lowest_layer(stream).expires_after(write_time);
  const auto [ec, size] = co_await http::async_write(stream, r, token);
  co_return !ec;
}

// Closing with unread bytes would reset the connection, and the answer might be lost.
template <class Stream>
asio::awaitable<void> listener::impl::linger(Stream& stream) {
  auto& lowest = beast::get_lowest_layer(stream);
  if constexpr (std::is_same_v<Stream, plain_stream>) {
    error_code ignored;
    lowest.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }
  lowest.expires_after(linger_time);
  std::array<char, 4096> waste{};
  for (std::size_t total = 0; total < most_lingering;) {
    const auto [ec, size] = co_await stream.async_read_some(asio::buffer(waste), token);
    if (ec) break;
    total += size;
  }
}

listener::listener(asio::io_context& context, listener_options options, routes& to,
                   upstream* calls_to)
    : impl_(std::make_unique<impl>(context, std::move(options), to, calls_to)) {}

listener::~listener() = default;

std::string listener::url() const {
  const std::string host = impl_->local.address().to_string();
  return (impl_->tls ? "https://" : "http://") +
         (impl_->local.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(impl_->local.port());
}

std::size_t listener::connections() const {
  return impl_->sessions.size();
}

void listener::stop() {
  impl_->stopped = true;
  error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->pause.cancel();
  for (session& s : impl_->sessions)
    if (s.stream != nullptr && !s.answering) s.stream->cancel();
}

}  // namespace sluice::app
