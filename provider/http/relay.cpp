#include "provider/http/relay.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "provider/http/answer_bounds.hpp"

namespace sluice::provider {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;
using boost::system::error_code;
using how = relay_result::how;

// Keeps the head, and of the body only what has not been passed on.
class passing_parser final : public http::basic_parser<false> {
 public:
  passing_parser() {
    eager(true);
    header_limit(most_answer_header);
    body_limit(boost::none);
  }
  relay_head head;
  std::string pending;
  bool interim() const { return head.status < 200; }

 private:
  using text = boost::beast::string_view;

  void on_request_impl(http::verb, text, text, int, error_code&) override {}
  void on_response_impl(int code, text reason, int, error_code&) override {
    head.status = code;
    head.reason = reason;
  }
  void on_field_impl(http::field, text name, text value, error_code&) override {
    // A trailer is meant for this connection unless both ends say otherwise.
    if (!header_over_) head.fields.emplace_back(name, value);
  }
  void on_header_impl(error_code&) override { header_over_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    if (length) head.length = *length;
  }
  std::size_t on_body_impl(text piece, error_code&) override {
    pending.append(piece);
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, text, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, text piece, error_code&) override {
    pending.append(piece);
    return piece.size();
  }
  void on_finish_impl(error_code&) override {}

  bool header_over_ = false;
};

// One relay between its waits.
class passage {
 public:
  passage(line& on, watchdog& deadlines, relay_limits within, answer_sink& to)
      : line_(on),
        to_(to),
        within_(within),
        end_(later(steady::now(), within.total)),
        watched_(deadlines, on.socket) {
    alive();
  }

  // Returns why the request could not be written, if so.
  asio::awaitable<std::optional<io_result>> write(std::span<const iovec> request) {
    std::size_t size = 0;
    for (const iovec& part : request) size += part.iov_len;
    for (std::size_t sent = 0; sent < size;) {
      const io_result r = line_.write(request, sent);
      if (r.ended == io_result::what::done) {
        sent += r.bytes;
        alive();
      } else if (waits(r.ended)) {
        const bool go_on = co_await ready(r);
        if (!go_on) co_return std::nullopt;
      } else {
        co_return r;
      }
    }
    written_ = true;
    co_return std::nullopt;
  }

  asio::awaitable<void> read(std::optional<io_result> write_failure) {
    // Nothing can have come yet, so the first thing is to wait; but a server may have answered
    // before it has read all.
    io_result r{write_failure ? io_result::what::done : io_result::what::want_read, 0, 0};
    while (!over_) {
      if (waits(r.ended)) {
        if (write_failure) {
          end(how::lost, why_ended(*write_failure));
          break;
        }
        const bool go_on = co_await ready(r);
        if (!go_on) break;
      }
      const auto space = line_.in.prepare(read_size);
      r = line_.read(space.data(), space.size());
      if (waits(r.ended)) continue;
      if (r.ended == io_result::what::done) {
        out.received += r.bytes;
        line_.in.commit(r.bytes);
        parse();
      } else {
        end_of_stream(r);
      }
      co_await pass_on();
      alive();
      // A short read has emptied a plain socket; TLS may hold more back.
      if (!line_.tls && r.bytes < read_size) r.ended = io_result::what::want_read;
    }
  }

  bool over() const { return over_; }

  relay_result out;

 private:
  void alive() { watched_.until(std::min(end_, later(steady::now(), within_.idle))); }

  void end(how ended, std::string cause = {}) {
    out.ended = ended;
    out.cause = std::move(cause);
    over_ = true;
  }

  asio::awaitable<bool> ready(const io_result& r) {
    if (to_.gone()) {
      end(how::gone);
      co_return false;
    }
    const auto [error] =
        co_await line_.socket.async_wait(awaited(r.ended), asio::as_tuple(asio::use_awaitable));
    if (to_.gone())
      end(how::gone);
    else if (watched_.expired())
      end(how::timed_out, "no answer in time");
    else if (watched_.aborted() || error)
      end(how::aborted, "interrupted");
    co_return !over_;
  }

  void parse() {
    auto& in = line_.in;
    while (in.size() > 0) {
      error_code error;
      const std::size_t used = parser_->put(in.data(), error);
      if (error && error != http::error::need_more) {
        end(how::malformed, "the answer is not HTTP (" + error.message() + ")");
        return;
      }
      in.consume(used);
      if (!parser_->is_header_done()) header_taken_ += used;
      if (parser_->is_done() && parser_->interim()) {
        if (parser_->head.status == 101 || ++interim_ > most_interim_answers) {
          end(how::malformed, "interim answers (1xx) and no real one");
          return;
        }
        parser_.emplace();
        header_taken_ = 0;
        continue;
      }
      if (parser_->is_done() || error || used == 0) break;
    }
    const std::size_t taken = parser_->is_header_done() ? 0 : header_taken_;
    if (taken + in.size() > most_answer_header && !parser_->is_done())
      end(how::malformed, "the header of the answer is over 64 KiB");
  }

  // An answer may be delimited by just that.
  void end_of_stream(const io_result& r) {
    error_code error;
    if (r.ended == io_result::what::closed && parser_->is_header_done()) {
      parser_->put_eof(error);
      if (!error && parser_->is_done()) {
        closed_ = true;
        return;
      }
    }
    end(how::lost, why_ended(r));
  }

  // What has come, complete or not, is the caller's.
  asio::awaitable<void> pass_on() {
    if (!parser_->is_header_done() || parser_->interim()) co_return;
    const bool last = parser_->is_done();
    if (out.head_passed && parser_->pending.empty() && !last) co_return;
    const relay_head* head = nullptr;
    if (!out.head_passed) {
      out.status = parser_->head.status;
      if (last && !parser_->head.length && !parser_->chunked())
        parser_->head.length = parser_->pending.size();
      remove_hop_by_hop(parser_->head.fields);
      head = &parser_->head;
    }
    watched_.until(steady::time_point::max());
    const bool taken = co_await to_.pass(head, parser_->pending, last);
    out.head_passed = true;
    parser_->pending.clear();
    if (last && !over_) {
      out.keep_alive = parser_->keep_alive() && written_ && !closed_ && line_.in.size() == 0;
      end(how::answered);
    }
    if (!taken) end(how::gone);
  }

  line& line_;
  answer_sink& to_;
  relay_limits within_;
  steady::time_point end_;
  watchdog::watch watched_;
  std::optional<passing_parser> parser_{std::in_place};
  std::size_t header_taken_ = 0;
  int interim_ = 0;
  bool written_ = false;
  bool closed_ = false;
  bool over_ = false;
};

}  // namespace

void remove_hop_by_hop(header_fields& fields) {
  constexpr std::array<std::string_view, 8> known{
      "connection",          "keep-alive", "proxy-connection", "transfer-encoding",
      "proxy-authorization", "te",         "trailer",          "upgrade"};
  std::vector<std::string> named;
  for (const auto& [name, value] : fields)
    if (iequals(name, "connection"))
      for (const auto& token : http::token_list(value)) named.emplace_back(token);
  std::erase_if(fields, [&](const auto& field) {
    const auto is_it = [&](const auto& name) { return iequals(name, field.first); };
    return std::any_of(known.begin(), known.end(), is_it) ||
           std::any_of(named.begin(), named.end(), is_it);
  });
}

asio::awaitable<relay_result> relay(line& on, watchdog& deadlines, std::span<const iovec> request,
                                    relay_limits within, answer_sink& to) {
  passage through(on, deadlines, within, to);
  const std::optional<io_result> failure = co_await through.write(request);
  if (!through.over()) co_await through.read(failure);
  co_return std::move(through.out);
}

}  // namespace sluice::provider
