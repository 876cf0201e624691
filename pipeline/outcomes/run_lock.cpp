#include "pipeline/outcomes/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pipeline/outcomes/run_store.hpp"

namespace sluice::pipeline {
namespace {

std::string holder(int fd) {
  char buffer[24] = {};
  const ssize_t n = ::pread(fd, buffer, sizeof buffer - 1, 0);
  std::string pid;
  for (ssize_t i = 0; i < n && buffer[i] >= '0' && buffer[i] <= '9'; ++i) pid += buffer[i];
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

run_lock::run_lock(const std::string& path) {
  const auto fail = [&](const char* what) {
    const int cause = errno;
    if (fd_ >= 0) ::close(fd_);
    throw storage_failure("lock " + path + ": " + what + ": " + std::strerror(cause) +
                          "; check that the folder exists and may be written to, or name another "
                          "--store");
  };
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
  if (fd_ < 0) fail("cannot be opened");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail("cannot be taken");
    const std::string who = holder(fd_);
    ::close(fd_);
    throw store_busy("store in use by " + who + " (" + path +
                     "); wait until it has ended, or name another --store");
  }
  // Only for the message above: without it, the lock holds all the same.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) errno = 0;
}

run_lock::~run_lock() {
  ::close(fd_);
}

}  // namespace sluice::pipeline
