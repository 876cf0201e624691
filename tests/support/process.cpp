// Forking, watching with poll, reaping.
#include "tests/support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <system_error>
#include <utility>

namespace sluice::testing {
namespace {

using steady = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  ~descriptor() { close(); }
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

std::pair<descriptor, descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  return {descriptor(ends[0]), descriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Between fork and exec: system calls only, as other threads may hold any lock.
[[noreturn]] void become(const process_options& o, char* const* argv, char* const* envp, int in,
                         int out, int err) {
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  // A server's sockets, kept open here, would hide from its clients that it has closed them.
  ::close_range(3, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (o.largest_file) {
    const rlimit limit{*o.largest_file, *o.largest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    // Ignored, so that writing fails as it does on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
  }
  if (o.most_files) {
    const rlimit limit{*o.most_files, *o.most_files};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (o.folder.empty() || ::chdir(o.folder.c_str()) == 0) ::execve(argv[0], argv, envp);
  ::_exit(127);
}

}  // namespace

struct process::impl {
  explicit impl(const process_options& o)
      : input(o.input.value_or("")), keep_open(o.keep_input_open) {
    deadline = steady::now() + o.bound;
    std::vector<std::string> arguments{o.program};
    arguments.insert(arguments.end(), o.arguments.begin(), o.arguments.end());
    const char* path = std::getenv("PATH");
    std::vector<std::string> variables{"PATH=" + std::string(path == nullptr ? "" : path),
                                       "TZ=UTC"};
    for (const auto& [name, value] : o.environment) variables.push_back(name + "=" + value);
    const std::vector<char*> argv = pointers(arguments);
    const std::vector<char*> envp = pointers(variables);

    auto [in_read, in_write] = make_pipe();
    auto [out_read, out_write] = make_pipe();
    auto [err_read, err_write] = make_pipe();
    pid = ::fork();
    if (pid < 0) fail("fork");
    if (pid == 0)
      become(o, argv.data(), envp.data(), in_read.get(), out_write.get(), err_write.get());
    handle = descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (handle.get() < 0) fail("pidfd_open");
    to_in = std::move(in_write);
    from_out = std::move(out_read);
    from_err = std::move(err_read);
    ::fcntl(to_in.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(from_out.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(from_err.get(), F_SETFL, O_NONBLOCK);
    // What a pipe can hold, at once: the test may wait for something else than this child.
    feed();
  }

  ~impl() {
    if (ended) return;
    ::kill(pid, SIGKILL);
    reap();
  }

  void reap() {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    ended = true;
    if (WIFEXITED(status)) result.exit = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  }

  static void drain(descriptor& from, std::string& into) {
    std::array<char, 65536> buffer;
    while (from.get() >= 0) {
      const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
      if (n > 0)
        into.append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0)
        from.close();
      else if (errno != EINTR)
        return;
    }
  }

  void feed() {
    // A child that reads no more must not end the test with SIGPIPE.
    static const auto ignored = ::signal(SIGPIPE, SIG_IGN);
    (void)ignored;
    const ssize_t n = input.empty() ? 0 : ::write(to_in.get(), input.data(), input.size());
    if (n > 0) input.erase(0, static_cast<std::size_t>(n));
    const bool broken = n < 0 && errno != EAGAIN && errno != EINTR;
    if (broken || (input.empty() && !keep_open)) to_in.close();
  }

  // Serves the child until `enough`, its end, or `until`.
  void serve(steady::time_point until, const std::function<bool()>& enough) {
    while (!ended && !enough()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(std::min(until, deadline) - steady::now());
      if (left.count() <= 0) {
        if (steady::now() < deadline) return;
        result.overdue = true;
        ::kill(pid, SIGKILL);
        reap();
        break;
      }
      std::array<pollfd, 4> watched{{{handle.get(), POLLIN, 0},
                                     {from_out.get(), POLLIN, 0},
                                     {from_err.get(), POLLIN, 0},
                                     {input.empty() ? -1 : to_in.get(), POLLOUT, 0}}};
      if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0) continue;
      if (watched[3].revents != 0) feed();
      drain(from_out, result.out);
      drain(from_err, result.err);
      if (watched[0].revents != 0) reap();
    }
    drain(from_out, result.out);
    drain(from_err, result.err);
  }

  pid_t pid = -1;
  std::string input;
  bool keep_open;
  steady::time_point deadline;
  descriptor handle;
  descriptor to_in;
  descriptor from_out;
  descriptor from_err;
  bool ended = false;
  process_end result;
};

process::process(const process_options& options) : impl_(std::make_unique<impl>(options)) {}
process::~process() = default;
process::process(process&&) noexcept = default;

pid_t process::id() const {
  return impl_->pid;
}

void process::send(int signal) {
  if (!impl_->ended) ::kill(impl_->pid, signal);
}

bool process::says(std::string_view text) {
  const auto there = [&] { return impl_->result.err.find(text) != std::string::npos; };
  impl_->serve(steady::time_point::max(), there);
  return there();
}

bool process::ends_within(std::chrono::milliseconds time) {
  impl_->serve(steady::now() + time, [] { return false; });
  return impl_->ended;
}

process_end process::wait() {
  impl_->serve(steady::time_point::max(), [] { return false; });
  return impl_->result;
}

process_end run_process(const process_options& options) {
  return process(options).wait();
}

}  // namespace sluice::testing
