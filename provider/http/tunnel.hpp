// Asking a proxy for a tunnel (RFC 9110, section 9.3.6): the words, and what the answer means. The
// waiting is the caller's.
#pragma once

#include <memory>
#include <string>

#include "provider/http/line.hpp"
#include "retry/reason.hpp"

namespace sluice::provider {

/// What a proxy said to CONNECT.
struct tunnel_answer {
  bool open = false;
  retry::reason why = retry::reason::connect_failure;  ///< unless open
  std::string cause;                                   ///< one line, with the remedy
};

/// One CONNECT on a fresh connection.
class tunnel_talk {
 public:
  explicit tunnel_talk(std::string request);
  ~tunnel_talk();

  /// Writes and reads as far as the socket lets it. `done`, or what to wait for.
  io_result::what go_on(line& on);
  /// After `done`.
  const tunnel_answer& answer() const { return answer_; }

 private:
  struct reader;
  io_result::what end(retry::reason why, std::string cause);
  io_result::what read(line& on);
  void judge(unsigned status);

  std::string request_;
  std::size_t written_ = 0;
  std::size_t taken_ = 0;
  std::unique_ptr<reader> reader_;
  tunnel_answer answer_;
};

}  // namespace sluice::provider
