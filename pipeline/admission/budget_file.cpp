#include "pipeline/admission/budget_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <set>

namespace sluice::pipeline {
namespace {

// Places of calls in flight are byte ranges of the lock file, far behind its content.
constexpr off_t wanted_byte = 1 << 20;
constexpr off_t first_place = wanted_byte + 1;
constexpr std::size_t largest_file = std::size_t{256} << 20U;

struct file_system {
  unsigned long type;
  const char* name;
};

// From linux/magic.h and the file systems' own sources.
constexpr std::array<file_system, 14> unreliable{{
    {0x6969, "NFS"},
    {0x517B, "SMB"},
    {0xFF534D42, "CIFS"},
    {0xFE534D42, "SMB"},
    {0x65735546, "FUSE (sshfs and its kin)"},
    {0x01021997, "9P"},
    {0x5346414F, "AFS"},
    {0x6B414653, "AFS"},
    {0x73757245, "Coda"},
    {0x00C36400, "Ceph"},
    {0x0BD00BD0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x7461636F, "OCFS2"},
    {0x01161970, "GFS2"},
}};

class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int cause = errno;
  throw storage_failure("budget " + path + ": " + what + ": " + std::strerror(cause) +
                        "; check the folder's permissions and free space");
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string read_all(int fd, const std::string& path) {
  std::string bytes;
  std::array<char, 16384> buffer{};
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be read");
    if (n == 0 || bytes.size() > largest_file) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string read_boot_id() {
  const descriptor in(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!in) return "unknown";
  std::string text = read_all(in.get(), "/proc/sys/kernel/random/boot_id");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The first bytes of what stands there; empty when nothing does. Throws budget_misuse for what is
// no file at all, such as a device or a pipe, which must not be replaced by one.
std::string beginning_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  if (!S_ISREG(info.st_mode))
    throw budget_misuse("budget " + path + ": this is no regular file; name another");
  const descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  std::array<char, 16> bytes{};
  const ssize_t n = in ? ::read(in.get(), bytes.data(), bytes.size()) : 0;
  return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

[[noreturn]] void refuse_foreign(const std::string& path, const std::string& what) {
  throw budget_misuse("budget " + path + ": " + what +
                      "; name another path, or move the file away");
}

class budget_file final : public budget_medium {
 public:
  explicit budget_file(const std::string& path)
      : path_(path), lock_path_(path + ".lock"), boot_id_(read_boot_id()) {
    // Damage is set aside; what is whole and somebody else's is left where it is.
    if (beginning_of(path).starts_with("SQLite format 3"))
      refuse_foreign(path, "this is an SQLite file, perhaps a store");
    const std::string folder = folder_of(path);
    struct statfs info {};
    if (::statfs(folder.c_str(), &info) != 0) fail(path, "its folder cannot be looked at");
    if (const auto kind = network_file_system(static_cast<long>(info.f_type)))
      throw budget_misuse("budget " + path + " lies on a network file system, " + *kind +
                          ", where locks are not to be relied on; put it on a local disk");
    folder_ = descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) fail(path, "its folder cannot be opened");
    lock_ = open_lock();
    places_ = open_lock();
  }

  bool try_lock() override {
    while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return false;
      fail(lock_path_, "cannot be locked");
    }
    // Somebody may have tidied the lock file away: then this one keeps nobody off.
    struct stat mine {};
    struct stat there {};
    if (::fstat(lock_.get(), &mine) != 0 || ::stat(lock_path_.c_str(), &there) != 0 ||
        mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) {
      lock_ = open_lock();
      return false;
    }
    // Only for people: without it, the lock holds all the same.
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock_.get(), 0) == 0 && ::pwrite(lock_.get(), pid.data(), pid.size(), 0) < 0)
      errno = 0;
    return true;
  }

  void unlock() override { ::flock(lock_.get(), LOCK_UN); }

  std::string holder() const override {
    std::array<char, 24> text{};
    const ssize_t n = ::pread(lock_.get(), text.data(), text.size() - 1, 0);
    std::string pid;
    for (std::size_t i = 0; static_cast<ssize_t>(i) < n && text[i] >= '0' && text[i] <= '9'; ++i)
      pid += text[i];
    return pid.empty() ? "another process" : "process " + pid;
  }

  std::optional<std::string> read() override {
    const descriptor in(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!in && errno == ENOENT) return std::nullopt;
    if (!in) fail(path_, "cannot be opened");
    return read_all(in.get(), path_);
  }

  void write(std::string_view bytes) override {
    const std::string fresh = path_ + ".new";
    {
      const descriptor out(
          ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!out) fail(fresh, "cannot be opened");
      write_all(out.get(), bytes, fresh);
      if (::fsync(out.get()) != 0) fail(fresh, "cannot be written");
    }
    if (::rename(fresh.c_str(), path_.c_str()) != 0) fail(path_, "cannot be replaced");
    sync_folder();
  }

  std::string set_aside() override {
    timespec wall{};
    ::clock_gettime(CLOCK_REALTIME, &wall);
    std::string aside =
        path_ + ".bad-" + std::to_string(wall.tv_sec) + "-" + std::to_string(::getpid());
    if (::rename(path_.c_str(), aside.c_str()) != 0) fail(path_, "cannot be set aside");
    sync_folder();
    return aside;
  }

  std::string boot_id() const override { return boot_id_; }
  std::string name() const override { return path_; }

  // Open-file-description locks: other files of the same process are others, too.
  bool take_place(unsigned of) override {
    for (off_t i = 0; i < static_cast<off_t>(of); ++i) {
      if (taken_.contains(i) || !range_lock(F_OFD_SETLK, F_WRLCK, first_place + i)) continue;
      taken_.insert(i);
      return true;
    }
    return false;
  }

  void free_place() override {
    if (taken_.empty()) return;
    const auto last = std::prev(taken_.end());
    range_lock(F_OFD_SETLK, F_UNLCK, first_place + *last);
    taken_.erase(last);
  }

  void want_place(bool wanted) override {
    if (wanted == wanted_) return;
    wanted_ = wanted;
    range_lock(F_OFD_SETLK, wanted ? F_RDLCK : F_UNLCK, wanted_byte);
  }

  bool others_want_place() const override {
    struct flock range = one_byte(F_WRLCK, wanted_byte);
    return ::fcntl(places_.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
  }

 private:
  static struct flock one_byte(int type, off_t at) {
    struct flock range {};
    range.l_type = static_cast<short>(type);
    range.l_whence = SEEK_SET;
    range.l_start = at;
    range.l_len = 1;
    return range;
  }

  bool range_lock(int command, int type, off_t at) const {
    struct flock range = one_byte(type, at);
    if (::fcntl(places_.get(), command, &range) == 0) return true;
    if (errno != EAGAIN && errno != EACCES) fail(lock_path_, "cannot be locked");
    return false;
  }

  descriptor open_lock() const {
    descriptor fd(
        ::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600));
    if (!fd) fail(lock_path_, "cannot be opened");
    return fd;
  }

  void sync_folder() const {
    if (::fsync(folder_.get()) != 0) fail(path_, "its folder cannot be written");
  }

  std::string path_;
  std::string lock_path_;
  std::string boot_id_;
  descriptor folder_;
  descriptor lock_;
  descriptor places_;
  std::set<off_t> taken_;
  bool wanted_ = false;
};

}  // namespace

std::unique_ptr<budget_medium> open_budget_file(const std::string& path) {
  return std::make_unique<budget_file>(path);
}

std::optional<std::string> network_file_system(long type) {
  // Where long has 32 bits, the larger numbers come out negative.
  const auto sought = static_cast<unsigned long>(type) & 0xFFFFFFFFUL;
  for (const file_system& f : unreliable)
    if (f.type == sought) return f.name;
  return std::nullopt;
}

void init_budget(const std::string& path, const budget_settings& settings) {
  const std::string there = beginning_of(path);
  if (!there.empty() && !begins_like_budget(there))
    refuse_foreign(path, "a file is there already, and it is no budget");
  budget_file file(path);
  // Whoever makes a budget anew says that nothing was sent, so nobody should be using it.
  if (!file.try_lock())
    throw store_error(75, "budget " + path + ": its lock is held by " + file.holder() +
                              "; wait until the jobs that use it have ended, then try again");
  file.write(serialise(fresh_budget(settings, file.boot_id())));
  file.unlock();
}

budget_view describe_budget(const std::string& path) {
  const descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!in && errno == ENOENT)
    throw budget_misuse("budget " + path +
                        ": there is none; check the path, or make one with `sluice budget init`");
  if (!in) fail(path, "cannot be opened");
  auto found = parse_budget(read_all(in.get(), path));
  if (const auto* bad = std::get_if<unusable>(&found))
    throw storage_failure("budget " + path + ": " + bad->why +
                          "; the next run sets it aside and makes it anew");
  budget_view view;
  view.state = std::move(std::get<budget_state>(found));
  view.of_this_boot = view.state.boot_id == read_boot_id();
  return view;
}

}  // namespace sluice::pipeline
