// Certificates for tests, and files to hand them over in.
#pragma once

#include <string>

#include "fixtures/certificates.hpp"

namespace sluice::testing {

using fixtures::certificate_wish;
using fixtures::identity;
using fixtures::make_identity;

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
