// How an endpoint's answer gets to the caller of a gate that passes calls on.
#pragma once

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "provider/http/relay.hpp"

namespace sluice::app {

/// The longest that one piece may take to be written to a caller.
inline constexpr std::chrono::seconds write_time{10};

/// Writes an endpoint's answer to the caller's connection, each piece as soon as it is there.
template <class Stream>
class answer_writer final : public provider::answer_sink {
 public:
  answer_writer(Stream& to, unsigned version, bool keep)
      : to_(to), chunks_(version >= 11), keep_(keep) {}

  boost::asio::awaitable<bool> pass(const provider::relay_head* head, std::string_view body,
                                    bool last) override {
    std::string out;
    if (head != nullptr) begin(*head, out);
    if (chunked_ && !body.empty()) {
      out += fmt::format("{:x}\r\n", body.size());
      out.append(body).append("\r\n");
    } else {
      out += body;
    }
    if (chunked_ && last) out += "0\r\n\r\n";
    begun_ = true;
    if (out.empty()) co_return true;
    boost::beast::get_lowest_layer(to_).expires_after(write_time);
    const auto [ec, size] = co_await boost::asio::async_write(
        to_, boost::asio::buffer(out), boost::asio::as_tuple(boost::asio::use_awaitable));
    boost::beast::get_lowest_layer(to_).expires_never();
    broken_ = broken_ || ec;
    co_return !broken_;
  }
  bool gone() const override { return broken_; }
  bool begun() const { return begun_; }
  /// Another request may follow.
  bool keep() const { return keep_ && !broken_; }

 private:
  void begin(const provider::relay_head& head, std::string& out) {
    out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, head.reason);
    bool length_said = false;
    for (const auto& [name, value] : head.fields) {
      length_said = length_said || boost::beast::iequals(name, "content-length");
      out.append(name).append(": ").append(value).append("\r\n");
    }
    const bool bodiless = head.status == 204 || head.status == 304;
    if (!bodiless && !length_said) {
      if (head.length) {
        out += fmt::format("Content-Length: {}\r\n", *head.length);
      } else if (chunks_) {
        chunked_ = true;
        out += "Transfer-Encoding: chunked\r\n";
      } else {
        keep_ = false;
      }
    }
    if (!keep_) out += "Connection: close\r\n";
    out += "\r\n";
  }

  Stream& to_;
  bool chunks_;
  bool keep_;
  bool chunked_ = false;
  bool begun_ = false;
  bool broken_ = false;
};

}  // namespace sluice::app
