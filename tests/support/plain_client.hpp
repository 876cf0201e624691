// A blocking HTTP client of one connection, for tests that look at a server from outside. It shares
// nothing with provider, and gives up after half a minute.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

/// An answer; header names are in lower case.
struct plain_response {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string body;
  bool keep_alive = false;

  /// A header's value; empty when there is none.
  std::string header(const std::string& lower_case_name) const;
};

using plain_headers = std::vector<std::pair<std::string, std::string>>;

/// Connects when made, and again whenever the server has closed. Throws boost::system::system_error
/// (a std::runtime_error) when the server does not answer properly.
class plain_client {
 public:
  explicit plain_client(std::uint16_t port, const std::string& host = "127.0.0.1");
  ~plain_client();
  plain_client(plain_client&&) noexcept;

  plain_response get(const std::string& target, const plain_headers& headers = {});
  plain_response post(const std::string& target, const std::string& body,
                      const plain_headers& headers = {});
  plain_response request(const std::string& method, const std::string& target,
                         const std::string& body, const plain_headers& headers);

  /// Sends these bytes as they are.
  void send_raw(const std::string& bytes);
  /// Reads one answer, to a request that was sent by send_raw.
  plain_response read_response();
  /// What comes until this text has come, that included.
  std::string read_until(const std::string& text);
  /// Everything that comes until the server closes; a reset ends it too.
  std::string read_to_end();
  /// Closes the connection at once.
  void hang_up();
  /// How often it has connected.
  unsigned connections() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace sluice::testing
