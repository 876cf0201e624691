#include "pipeline/documents/inputs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what, const std::string& cause,
                         const std::string& remedy) {
  throw input_failure(printable(what, 300) + ": " + cause + "; " + remedy);
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const std::string_view e : endings)
    if (name.size() > e.size() &&
        std::equal(e.begin(), e.end(), name.end() - static_cast<std::ptrdiff_t>(e.size()),
                   [&](char b, char a) { return same(a, b); }))
      return true;
  return false;
}

void must_open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    refuse(path, std::string("cannot be opened: ") + std::strerror(errno),
           "give this user the right to read it, or take it out of the command");
  ::close(fd);
}

// Adds the documents of one folder and those below it. `id_at` is where the IDs start in the paths.
void walk(const std::string& folder, std::size_t id_at, std::vector<input>& into) {
  std::error_code ec;
  fs::directory_iterator it(folder, ec);
  const auto check = [&] {
    if (ec)
      refuse(folder, "the folder cannot be read: " + ec.message(),
             "give this user the right to read it, or name the readable parts one by one");
  };
  check();
  for (; it != fs::directory_iterator(); it.increment(ec), check()) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    const std::string path = (folder.ends_with('/') ? folder : folder + '/') + name;
    std::error_code gone;
    const fs::file_status status = it->symlink_status(gone);
    if (fs::is_directory(status)) {
      walk(path, id_at, into);
    } else if (fs::is_regular_file(status) && ends_with_any(name, {".txt", ".md"})) {
      input one;
      one.path = path;
      one.id_at = id_at;
      into.push_back(std::move(one));
    }
  }
  check();
}

void add_folder(const std::string& folder, std::vector<input>& into) {
  const auto first = static_cast<std::ptrdiff_t>(into.size());
  walk(folder, folder.size() + (folder.ends_with('/') ? 0 : 1), into);
  std::sort(into.begin() + first, into.end(),
            [](const input& a, const input& b) { return a.path < b.path; });
}

void add(const std::string& named, std::vector<input>& into) {
  struct stat info {};
  if (named.empty()) refuse("\"\"", "an empty name", "name a file, a folder or -");
  if (::stat(named.c_str(), &info) != 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    refuse(named, missing ? "does not exist" : std::strerror(errno),
           missing ? "check the spelling and the current folder"
                   : "give this user the right to read it");
  }
  if (S_ISDIR(info.st_mode)) return add_folder(named, into);
  if (!S_ISREG(info.st_mode))
    refuse(named, "is neither a file nor a folder", "pipe JSONL into - instead");
  must_open(named);
  input one;
  one.path = named;
  if (ends_with_any(named, {".jsonl"})) {
    one.from = origin::kind::jsonl_line;
  } else {
    const std::size_t slash = named.rfind('/');
    one.id_at = slash == std::string::npos ? 0 : slash + 1;
  }
  into.push_back(std::move(one));
}

}  // namespace

std::vector<input> list_inputs(const std::vector<std::string>& named) {
  std::vector<input> inputs;
  bool piped = false;
  for (const std::string& name : named) {
    if (name != "-") {
      add(name, inputs);
      continue;
    }
    if (piped) refuse("-", "standard input is named twice", "name it once");
    piped = true;
    input one;
    one.from = origin::kind::standard_input;
    one.path = name;
    inputs.push_back(std::move(one));
  }
  return inputs;
}

}  // namespace sluice::pipeline
