// The program under test with its output in a file, for tests of several at once.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

/// One `sluice`, its output in a file. Its end kills it.
class program {
 public:
  program(std::vector<std::string> arguments, std::string output) : output_(std::move(output)) {
    arguments.insert(arguments.begin(), SLUICE_PROGRAM);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int error = ::posix_spawn(&pid_, SLUICE_PROGRAM, &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start the program");
  }
  program(program&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}
  program& operator=(program&& other) noexcept {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    output_ = std::move(other.output_);
    return *this;
  }
  ~program() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  void terminate() const { ::kill(pid_, SIGTERM); }
  std::string pid() const { return std::to_string(pid_); }
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Waits, at most half a minute, until the output holds this; what stands behind it on its line.
  std::string says(const std::string& text) const {
    for (int look = 0; look < 3000; ++look) {
      const std::string all = output();
      const auto at = all.find(text);
      const auto end = at == std::string::npos ? at : all.find('\n', at);
      if (end != std::string::npos) return all.substr(at + text.size(), end - at - text.size());
      ::poll(nullptr, 0, 10);
    }
    throw std::runtime_error("never said '" + text + "': " + output());
  }
  std::string output() const {
    std::ostringstream text;
    text << std::ifstream(output_).rdbuf();
    return text.str();
  }

 private:
  pid_t pid_ = -1;
  std::string output_;
};

}  // namespace sluice::testing
