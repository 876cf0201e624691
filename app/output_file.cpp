#include "app/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "app/exit_codes.hpp"
#include "app/settings.hpp"

namespace sluice::app {

output_file::output_file(std::string path) : path_(std::move(path)) {
  struct stat there {};
  const bool exists = !path_.empty() && ::stat(path_.c_str(), &there) == 0;
  const bool special = exists && !S_ISREG(there.st_mode);
  if (path_.empty()) {
    fd_ = STDOUT_FILENO;
  } else if (special) {
    // A pipe or a device cannot be renamed onto; a folder fails here.
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail("opening");
  } else {
    // What a link leads to is written anew, not the link.
    std::error_code ec;
    if (exists && std::filesystem::is_symlink(path_, ec)) {
      const auto target = std::filesystem::canonical(path_, ec);
      if (!ec) path_ = target.string();
    }
    temporary_ = path_ + ".XXXXXX";
    fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    if (fd_ < 0) {
      temporary_.clear();
      fail("creating a temporary beside it");
    }
    const mode_t mask = ::umask(0);
    ::umask(mask);
    // Who may read it stays as it was.
    ::fchmod(fd_, exists ? there.st_mode & 0777U : 0666 & ~mask);
  }
}

output_file::~output_file() {
  if (fd_ >= 0 && fd_ != STDOUT_FILENO) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void output_file::fail(const char* doing) const {
  throw settings_error(exit_codes::storage,
                       (path_.empty() ? std::string("standard output") : path_) + ": " + doing +
                           ": " + std::strerror(errno) +
                           "; free some space or choose another file, then ask again");
}

void output_file::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= 65536) flush();
}

void output_file::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("writing");
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

void output_file::commit() {
  flush();
  if (temporary_.empty()) return;
  if (::fsync(fd_) != 0) fail("syncing");
  if (::close(std::exchange(fd_, -1)) != 0) fail("closing");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming the temporary");
  temporary_.clear();
}

}  // namespace sluice::app
