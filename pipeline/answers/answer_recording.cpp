#include "pipeline/answers/answer_recording.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "pipeline/outcomes/records.hpp"

namespace sluice::pipeline {

answer_recording::answer_recording(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) fail("opened", errno);
  drop_torn_line();
}

void answer_recording::drop_torn_line() {
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  if (size <= 0) return;  // new, or nothing that has a size
  off_t end = size;
  std::array<char, 4096> piece{};
  while (end > 0) {
    const off_t from = std::max<off_t>(0, end - static_cast<off_t>(piece.size()));
    const ssize_t n = ::pread(fd_, piece.data(), static_cast<std::size_t>(end - from), from);
    if (n <= 0) fail("read", n < 0 ? errno : EIO);
    const std::string_view text(piece.data(), static_cast<std::size_t>(n));
    const auto at = text.rfind('\n');
    if (at != std::string_view::npos) {
      end = from + static_cast<off_t>(at) + 1;
      break;
    }
    end = from;
  }
  if (end < size && ::ftruncate(fd_, end) != 0) fail("written", errno);
}

answer_recording::~answer_recording() {
  if (fd_ >= 0) ::close(fd_);
}

void answer_recording::add(const recorded_answer& a) {
  const std::string line = recorded_answer_line(a) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      // Half a line would be taken for damage later.
      if (done > 0) {
        struct stat now {};
        if (::fstat(fd_, &now) == 0)
          (void)!::ftruncate(fd_, now.st_size - static_cast<off_t>(done));
      }
      fail("written", error);
    }
    done += static_cast<std::size_t>(n);
  }
}

void answer_recording::fail(const char* doing, int error) const {
  throw storage_failure("--record " + path_ + ": cannot be " + doing + " (" + std::strerror(error) +
                        "); make room or name another file, then run again. What was answered "
                        "so far is kept in the store; with --again it is asked and recorded anew");
}

}  // namespace sluice::pipeline
