// Certificates made on the spot, so that none can expire in the repository.
#pragma once

#include <chrono>
#include <string>

namespace sluice::testing {

/// A key and its certificate, both PEM.
struct identity {
  std::string certificate;
  std::string key;
};

struct certificate_wish {
  std::string name = "localhost";                          ///< the subject's common name
  std::string alternative = "DNS:localhost,IP:127.0.0.1";  ///< subjectAltName; empty: none
  std::chrono::hours from = -std::chrono::hours(24);       ///< relative to now
  std::chrono::hours until = std::chrono::hours(24);       ///< relative to now
  bool ca = false;
};

/// Signed by `issuer`, or by itself when there is none.
identity make_identity(const certificate_wish& wish, const identity* issuer = nullptr);

/// A file below /tmp that is removed at the end of its life.
class scratch_file {
 public:
  explicit scratch_file(const std::string& content);
  ~scratch_file();
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice::testing
