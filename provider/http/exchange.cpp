#include "provider/http/exchange.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "provider/http/answer_bounds.hpp"

namespace sluice::provider {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using how = exchange_result::how;

// A TLS alert record, in answer to plain HTTP.
constexpr std::string_view tls_alert = "\x15\x03";
constexpr std::size_t most_reserved = std::size_t{256} << 10U;

// Fills an http_answer straight from Beast's parser, without a message in between.
class answer_parser final : public http::basic_parser<false> {
 public:
  explicit answer_parser(std::size_t max_body) {
    eager(true);
    header_limit(most_answer_header);
    body_limit(max_body);
  }
  http_answer& answer() { return answer_; }
  bool got_start() const { return answer_.status != 0; }
  bool interim() const { return answer_.status < 200; }

 private:
  using text = boost::beast::string_view;

  void on_request_impl(http::verb, text, text, int, error_code&) override {}
  void on_response_impl(int code, text, int, error_code&) override { answer_.status = code; }
  void on_field_impl(http::field, text name, text value, error_code&) override {
    // What comes after the header is a trailer, and nothing there is asked for.
    if (header_over_) return;
    std::string lower(name);
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    answer_.headers.emplace_back(std::move(lower), std::string(value));
  }
  void on_header_impl(error_code&) override { header_over_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    if (length) answer_.body.reserve(std::min<std::size_t>(*length, most_reserved));
  }
  std::size_t on_body_impl(text piece, error_code&) override {
    answer_.body.append(piece);
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, text, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, text piece, error_code&) override {
    answer_.body.append(piece);
    return piece.size();
  }
  void on_finish_impl(error_code&) override {}

  http_answer answer_;
  bool header_over_ = false;
};

std::string why_malformed(const error_code& error, std::string_view start) {
  if (error == http::error::header_limit) return "the header of the answer is over 64 KiB";
  if (start.starts_with(tls_alert)) return "the server speaks TLS here: say https://";
  return "the answer is not HTTP (" + error.message() + ")";
}

std::string_view text_of(const boost::beast::flat_buffer& in) {
  return std::string_view(static_cast<const char*>(in.data().data()), in.size());
}

bool begins_like_http(std::string_view start) {
  constexpr std::string_view protocol = "HTTP/1.";
  const std::size_t size = std::min(start.size(), protocol.size());
  return start.substr(0, size) == protocol.substr(0, size);
}

// The state of one exchange between its waits.
class conversation {
 public:
  conversation(line& on, const exchange_limits& within)
      : line_(on), max_body_(within.max_body), parser_(std::in_place, within.max_body) {}

  // Takes in what was read. True: the exchange is over, one way or the other.
  bool parse(exchange_result& out) {
    auto& in = line_.in;
    while (in.size() > 0) {
      error_code error;
      // Beast waits for a whole line; whoever speaks another protocol may never send one.
      if (!parser_->got_start() && !begins_like_http(text_of(in))) {
        out.ended = how::malformed;
        out.cause = why_malformed(http::error::bad_version, text_of(in));
        out.wants_tls = text_of(in).starts_with(tls_alert);
        return true;
      }
      const std::size_t used = parser_->put(in.data(), error);
      if (error && error != http::error::need_more) {
        out.ended = error == http::error::body_limit ? how::over_limit : how::malformed;
        out.cause = why_malformed(error, text_of(in));
        // A length over the limit is found when the header is complete.
        take_what_there_is(out, out.ended == how::over_limit);
        return true;
      }
      in.consume(used);
      if (!parser_->is_header_done()) header_taken_ += used;
      if (parser_->is_done() && parser_->interim()) {
        if (parser_->answer().status == 101 || ++interim_ > most_interim_answers) {
          out.ended = how::malformed;
          out.cause = "interim answers (1xx) and no real one";
          return true;
        }
        parser_.emplace(max_body_);
        header_taken_ = 0;
        continue;
      }
      if (parser_->is_done()) {
        finish(out);
        return true;
      }
      if (error || used == 0) break;
    }
    // Beast's own limit is for what piles up, which leaves out the lines already taken in.
    const std::size_t taken = parser_->is_header_done() ? 0 : header_taken_;
    if (taken + in.size() > most_answer_header) {
      out.ended = how::malformed;
      out.cause = why_malformed(http::error::header_limit, {});
      return true;
    }
    return false;
  }

  // Time is up, but after a stall of this process (Ctrl-Z, say) the answer may be here already, and
  // it is paid for.
  void last_look(exchange_result& out) {
    const how verdict = out.ended;
    while (true) {
      const auto space = line_.in.prepare(read_size);
      const io_result r = line_.read(space.data(), space.size());
      if (r.ended == io_result::what::closed) end_of_stream(r, out);
      if (r.ended != io_result::what::done) break;
      out.received += r.bytes;
      line_.in.commit(r.bytes);
      if (parse(out)) return;
    }
    if (out.ended == how::answered) return;
    out.ended = verdict;
    take_what_there_is(out);
  }

  // The connection is over; so is an answer that is delimited by just that.
  void end_of_stream(const io_result& r, exchange_result& out) {
    error_code error;
    if (r.ended == io_result::what::closed && parser_->got_some()) {
      parser_->put_eof(error);
      if (!error && parser_->is_done() && !parser_->interim()) {
        finish(out);
        out.keep_alive = false;
        return;
      }
    }
    out.ended = how::lost;
    out.cause = why_ended(r);
    if (line_.tls && r.ended == io_result::what::failed) {
      if (auto against = line_.tls->objection()) {
        out.distrusted = true;
        out.cause = std::move(*against);
      }
    }
    take_what_there_is(out);
  }

 private:
  void finish(exchange_result& out) {
    out.ended = how::answered;
    out.header_done = true;
    out.keep_alive = parser_->keep_alive() && line_.in.size() == 0;
    take(out);
  }

  // An answer that will not be whole. A header that is may tell enough.
  void take_what_there_is(exchange_result& out, bool header_done = false) {
    out.header_done = (header_done || parser_->is_header_done()) && !parser_->interim();
    if (out.header_done)
      take(out);
    else
      out.answer.status = parser_->answer().status;
  }

  void take(exchange_result& out) {
    out.answer = std::move(parser_->answer());
    out.answer.received =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }

  line& line_;
  std::size_t max_body_;
  std::optional<answer_parser> parser_;
  std::size_t header_taken_ = 0;
  int interim_ = 0;
};

// One wait for the socket. False: it was ended from outside, and `out` says how.
asio::awaitable<bool> ready(line& on, watchdog::watch& watched, io_result::what wanted,
                            steady::time_point end, exchange_result& out) {
  const auto [error] =
      co_await on.socket.async_wait(awaited(wanted), asio::as_tuple(asio::use_awaitable));
  if (watched.expired()) {
    out.ended = steady::now() >= end ? how::timed_out : how::idled_out;
    co_return false;
  }
  if (watched.aborted() || error) {
    out.ended = how::aborted;
    co_return false;
  }
  co_return true;
}

}  // namespace

asio::awaitable<exchange_result> exchange(line& on, watchdog& deadlines,
                                          std::span<const iovec> request, exchange_limits within) {
  exchange_result out;
  const steady::time_point start = steady::now();
  const steady::time_point end = later(start, within.total);
  watchdog::watch watched(deadlines, on.socket);
  const auto alive_at = [&](steady::time_point now) {
    watched.until(std::min(end, later(now, within.idle)));
  };
  alive_at(start);

  std::size_t size = 0;
  for (const iovec& part : request) size += part.iov_len;
  std::optional<io_result> write_failure;
  for (std::size_t sent = 0; sent < size && !write_failure;) {
    const io_result r = on.write(request, sent);
    switch (r.ended) {
      case io_result::what::done:
        sent += r.bytes;
        alive_at(steady::now());
        break;
      case io_result::what::want_read:
      case io_result::what::want_write: {
        const bool go_on = co_await ready(on, watched, r.ended, end, out);
        if (!go_on) co_return out;
        break;
      }
      // A server may answer before it has read all, and close: its answer is worth a look.
      default:
        write_failure = r;
    }
  }
  out.written = !write_failure;

  conversation talk(on, within);
  // Nothing can have come yet, so the first thing is to wait.
  io_result r{write_failure ? io_result::what::done : io_result::what::want_read, 0, 0};
  while (true) {
    if (waits(r.ended)) {
      if (write_failure) {
        talk.end_of_stream(*write_failure, out);
        co_return out;
      }
      const bool go_on = co_await ready(on, watched, r.ended, end, out);
      if (!go_on) {
        if (watched.expired()) talk.last_look(out);
        co_return out;
      }
    }
    const auto space = on.in.prepare(read_size);
    r = on.read(space.data(), space.size());
    if (waits(r.ended)) continue;
    if (r.ended != io_result::what::done) {
      talk.end_of_stream(r, out);
      co_return out;
    }
    const steady::time_point now = steady::now();
    if (!out.first_byte) out.first_byte = now - start;
    out.received += r.bytes;
    alive_at(now);
    on.in.commit(r.bytes);
    if (talk.parse(out)) {
      out.keep_alive = out.keep_alive && out.written;
      co_return out;
    }
    // A short read has emptied a plain socket; TLS may hold more back.
    if (!on.tls && r.bytes < read_size) r.ended = io_result::what::want_read;
  }
}

}  // namespace sluice::provider
