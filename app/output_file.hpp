// A file that is written whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace sluice::app {

/// Writes to a temporary beside `path` and renames it when committed; without a commit nothing is
/// left behind. An empty path is standard output. Everything throws settings_error 74 that names
/// the file, the cause and the remedy.
class output_file {
 public:
  explicit output_file(std::string path);
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(std::string_view text);
  /// Flushes, syncs and renames.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;
  void flush();

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  int fd_ = -1;
};

}  // namespace sluice::app
