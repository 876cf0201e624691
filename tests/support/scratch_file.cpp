#include <stdlib.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/support/certificates.hpp"

namespace sluice::testing {

scratch_file::scratch_file(const std::string& content) : path_("/tmp/sluice_test_XXXXXX") {
  const int file = mkstemp(path_.data());
  if (file < 0) throw std::runtime_error("no scratch file");
  const auto written = ::write(file, content.data(), content.size());
  ::close(file);
  if (written != static_cast<ssize_t>(content.size())) throw std::runtime_error("no scratch file");
}

scratch_file::~scratch_file() {
  ::unlink(path_.c_str());
}

}  // namespace sluice::testing
