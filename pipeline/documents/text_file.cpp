#include "pipeline/documents/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pipeline/documents/jsonl.hpp"
#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

class closer {
 public:
  explicit closer(int fd) : fd_(fd) {}
  ~closer() {
    if (fd_ >= 0) ::close(fd_);
  }
  closer(const closer&) = delete;
  closer& operator=(const closer&) = delete;

 private:
  int fd_;
};

text_file_error too_long() {
  return {0, "longer than " + std::to_string(longest_document >> 20U) + " MiB"};
}

std::uint64_t line_of(std::string_view text, std::size_t offset) {
  return 1 + static_cast<std::uint64_t>(std::count(
                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

}  // namespace

std::variant<std::string, text_file_error> read_text_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return text_file_error{0, std::string("cannot be opened: ") + std::strerror(errno)};
  const closer owner(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return text_file_error{0, "is no longer a regular file"};
  if (static_cast<std::uint64_t>(info.st_size) > longest_document + 3) return too_long();

  // One byte more than it says, so that the end is seen in one go; it may have grown meanwhile.
  std::string text(static_cast<std::size_t>(info.st_size) + 1, '\0');
  std::size_t have = 0;
  while (true) {
    if (have == text.size()) text.resize(std::min(text.size() * 2, longest_document + 4));
    if (have == text.size()) return too_long();
    const ssize_t n = ::read(fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return text_file_error{0, std::string("cannot be read: ") + std::strerror(errno)};
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  text.resize(have);
  const std::size_t mark = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  if (have - mark > longest_document) return too_long();

  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return text_file_error{1, "UTF-16: convert the file with iconv -f UTF-16 -t UTF-8"};
  if (const auto bad = first_invalid_utf8(text))
    return text_file_error{line_of(text, *bad), "not UTF-8 at byte " + std::to_string(*bad + 1) +
                                                    " of the file: convert it with iconv"};
  if (const auto nul = text.find('\0'); nul != std::string::npos)
    return text_file_error{
        line_of(text, nul),
        "a NUL character at byte " + std::to_string(nul + 1) + " of the file: this is no text"};
  text.erase(0, mark);
  return text;
}

}  // namespace sluice::pipeline
