#include "provider/http/tunnel.hpp"

#include <array>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace sluice::provider {
namespace {

namespace http = boost::beast::http;
using retry::reason;

constexpr std::uint32_t most_header = 16U << 10U;
constexpr std::size_t read_size = 4096;

}  // namespace

struct tunnel_talk::reader {
  reader() {
    // Whatever the answer's header says, a tunnel follows it and no body.
    parser.skip(true);
    parser.header_limit(most_header);
  }
  http::response_parser<http::empty_body> parser;
};

tunnel_talk::tunnel_talk(std::string request)
    : request_(std::move(request)), reader_(std::make_unique<reader>()) {}
tunnel_talk::~tunnel_talk() = default;

io_result::what tunnel_talk::end(reason why, std::string cause) {
  answer_.open = false;
  answer_.why = why;
  answer_.cause = std::move(cause);
  return io_result::what::done;
}

io_result::what tunnel_talk::go_on(line& on) {
  while (written_ < request_.size()) {
    const std::array<iovec, 1> parts{iovec{request_.data(), request_.size()}};
    const io_result r = on.write(parts, written_);
    if (r.ended == io_result::what::want_write) return r.ended;
    if (r.ended != io_result::what::done)
      return end(reason::connect_failure, "it closed the connection");
    written_ += r.bytes;
  }
  return read(on);
}

io_result::what tunnel_talk::read(line& on) {
  while (!reader_->parser.is_header_done()) {
    const auto space = on.in.prepare(read_size);
    const io_result r = on.read(space.data(), space.size());
    if (r.ended == io_result::what::want_read) return r.ended;
    if (r.ended != io_result::what::done)
      return end(reason::connect_failure, "it closed the connection without a whole answer");
    on.in.commit(r.bytes);
    taken_ += r.bytes;
    while (on.in.size() > 0 && !reader_->parser.is_header_done()) {
      http::response_parser<http::empty_body>& parser = reader_->parser;
      boost::system::error_code error;
      const std::size_t used = parser.put(on.in.data(), error);
      on.in.consume(used);
      if (error == http::error::need_more) break;
      if (error == http::error::header_limit)
        return end(reason::proxy_refused, "the header of its answer is too long");
      if (error)
        return end(reason::proxy_refused, "what it says is not HTTP; check the address and port");
      const bool interim = parser.is_header_done() && parser.get().result_int() < 200;
      if (interim) reader_ = std::make_unique<reader>();
    }
    if (taken_ > most_header)
      return end(reason::proxy_refused, "the header of its answer is too long");
  }
  judge(reader_->parser.get().result_int());
  // A server with TLS waits for its client: whoever speaks first is none.
  if (answer_.open && on.in.size() > 0)
    return end(reason::proxy_refused, "it goes on talking where the tunnel should begin");
  return io_result::what::done;
}

void tunnel_talk::judge(unsigned status) {
  const std::string number = std::to_string(status);
  if (status < 300) {
    answer_.open = true;
    return;
  }
  if (status == 407) {
    end(reason::proxy_refused,
        "it asks for credentials or refuses them (407); check the user name and password there");
  } else if (status >= 500) {
    // It may well reach the endpoint later; nothing was sent.
    end(reason::connect_failure, "it does not reach the endpoint (" + number + ")");
  } else {
    end(reason::proxy_refused, "it refuses (" + number +
                                   "); correct its address there, or add the endpoint's host to "
                                   "NO_PROXY");
  }
}

}  // namespace sluice::provider
