#include "tests/support/raw_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <stdexcept>

#include "fixtures/openssl_handle.hpp"

namespace sluice::testing {
namespace {

using fixtures::freed;
using context_ptr = std::unique_ptr<SSL_CTX, freed<SSL_CTX_free>>;
using ssl_ptr = std::unique_ptr<SSL, freed<SSL_free>>;

using x509_ptr = std::unique_ptr<X509, freed<X509_free>>;

x509_ptr certificate_of(const identity& who) {
  const std::unique_ptr<BIO, freed<BIO_free_all>> text(BIO_new_mem_buf(who.certificate.data(), -1));
  return x509_ptr(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
}

context_ptr server_context(const raw_server_options& options, const identity& self) {
  context_ptr context(SSL_CTX_new(TLS_server_method()));
  const std::unique_ptr<BIO, freed<BIO_free_all>> key_text(BIO_new_mem_buf(self.key.data(), -1));
  const x509_ptr cert = certificate_of(self);
  const std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_certificate(context.get(), cert.get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  if (options.old_tls_only) {
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), TLS1_1_VERSION);
  }
  if (options.client_ca != nullptr) {
    const x509_ptr ca = certificate_of(*options.client_ca);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  if (options.tls_1_2_only) SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  return context;
}

// Where the header ends and how long the body is; nothing while that is not known.
std::optional<std::size_t> whole_request(const std::string& text) {
  const auto end = text.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  std::string header = text.substr(0, end);
  for (char& c : header) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string field = "\r\ncontent-length:";
  const auto at = header.find(field);
  const std::size_t body =
      at == std::string::npos ? 0 : std::stoul(header.substr(at + field.size()));
  if (text.size() < end + 4 + body) return std::nullopt;
  return end + 4 + body;
}

}  // namespace

// The server's end of one connection, blocking.
class raw_server::peer {
 public:
  peer(int socket, const raw_server_options& options) : socket_(socket), options_(options) {
    if (options.tls != nullptr) good_ = start_tls(*options.tls);
  }
  bool good() const { return good_; }

  bool start_tls(const identity& self) {
    context_ = server_context(options_, self);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_);
    return SSL_accept(ssl_.get()) == 1;
  }

  // Zero at the end, however it came.
  std::size_t read(char* to, std::size_t size) {
    if (ssl_) {
      std::size_t n = 0;
      return SSL_read_ex(ssl_.get(), to, size, &n) == 1 ? n : 0;
    }
    const auto n = ::recv(socket_, to, size, 0);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

  void write(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      std::size_t n = 0;
      if (ssl_) {
        if (SSL_write_ex(ssl_.get(), bytes.data() + done, bytes.size() - done, &n) != 1) return;
      } else {
        const auto sent = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        n = static_cast<std::size_t>(sent);
      }
      done += n;
    }
  }

  void say_goodbye() {
    if (ssl_) SSL_shutdown(ssl_.get());
  }

 private:
  int socket_;
  const raw_server_options& options_;
  context_ptr context_;
  ssl_ptr ssl_;
  bool good_ = true;
};

raw_server::raw_server(std::vector<script> scripts, raw_server_options options)
    : scripts_(std::move(scripts)), options_(options) {
  const bool v6 = std::string(options_.address).find(':') != std::string::npos;
  sockaddr_storage at{};
  socklen_t size = 0;
  if (v6) {
    auto* v = reinterpret_cast<sockaddr_in6*>(&at);
    v->sin6_family = AF_INET6;
    inet_pton(AF_INET6, options_.address, &v->sin6_addr);
    size = sizeof(sockaddr_in6);
  } else {
    auto* v = reinterpret_cast<sockaddr_in*>(&at);
    v->sin_family = AF_INET;
    inet_pton(AF_INET, options_.address, &v->sin_addr);
    size = sizeof(sockaddr_in);
  }
  listener_ = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::listen(listener_, 512) != 0)
    throw std::runtime_error(std::string("cannot listen on ") + options_.address);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
  port_ = ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

raw_server::~raw_server() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // Wakes whoever blocks on them; the owner closes.
    for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    changed_.notify_all();
  }
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& t : threads_) t.join();
  ::close(listener_);
}

std::string raw_server::url(const std::string& host) const {
  return (options_.tls != nullptr ? "https://" : "http://") + host + ':' + std::to_string(port_) +
         "/v1";
}

std::vector<std::string> raw_server::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void raw_server::await_requests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return requests_.size() >= count; });
}

void raw_server::await_sent(std::size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sent_ >= count; });
}

void raw_server::await_connections(std::size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return accepted_ >= count; });
}

void raw_server::await_ended(std::size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= count; });
}

std::string raw_server::received() const {
  const std::lock_guard lock(mutex_);
  return received_;
}

std::size_t raw_server::connections() const {
  const std::lock_guard lock(mutex_);
  return accepted_;
}

void raw_server::go_on() {
  const std::lock_guard lock(mutex_);
  ++told_;
  changed_.notify_all();
}

void raw_server::accept_all() {
  while (true) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stopping_ || socket < 0) {
      if (socket >= 0) ::close(socket);
      if (stopping_) return;
      continue;
    }
    open_.push_back(socket);
    const std::size_t number = accepted_++;
    threads_.emplace_back([this, socket, number] { serve(socket, number); });
    changed_.notify_all();
  }
}

void raw_server::serve(int socket, std::size_t number) {
  // OpenSSL writes without MSG_NOSIGNAL. Only this thread is spared: the client must not need it.
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);

  const script& steps = scripts_.at(std::min(number, scripts_.size() - 1));
  std::array<char, 16384> buffer{};
  std::string pending;
  const auto drain = [&] {
    while (::recv(socket, buffer.data(), buffer.size(), 0) > 0) {
    }
  };
  {
    std::optional<peer> other;
    if (options_.accept_only)
      drain();
    else
      other.emplace(socket, options_);
    const auto take_in = [&] {
      const std::size_t n = other->read(buffer.data(), buffer.size());
      const std::lock_guard lock(mutex_);
      received_.append(buffer.data(), n);
      pending.append(buffer.data(), n);
      return n > 0;
    };
    bool over = !other || !other->good();
    bool ended_by_script = false;
    for (auto step = steps.begin(); step != steps.end() && !over; ++step) {
      switch (step->what) {
        case action::kind::read_request: {
          std::optional<std::size_t> size = whole_request(pending);
          while (!size && take_in()) size = whole_request(pending);
          over = !size;
          if (over) break;
          const std::lock_guard lock(mutex_);
          requests_.push_back(pending.substr(0, *size));
          pending.erase(0, *size);
          changed_.notify_all();
          break;
        }
        case action::kind::read_some:
          over = !take_in();
          break;
        case action::kind::send: {
          other->write(step->bytes);
          const std::lock_guard lock(mutex_);
          ++sent_;
          changed_.notify_all();
          break;
        }
        case action::kind::drip: {
          pollfd hangup{socket, POLLIN, 0};
          while (::poll(&hangup, 1, 5) == 0) other->write(step->bytes);
          break;
        }
        case action::kind::wait_closed:
          while (take_in()) {
          }
          break;
        case action::kind::wait_told: {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return told_ > 0 || stopping_; });
          --told_;
          break;
        }
        case action::kind::start_tls:
          over = options_.tls_later == nullptr || !other->start_tls(*options_.tls_later);
          break;
        case action::kind::close:
          other->say_goodbye();
          [[fallthrough]];
        case action::kind::cut:
          // A close with unread bytes would be a reset.
          ::shutdown(socket, SHUT_WR);
          drain();
          ended_by_script = over = true;
          break;
        case action::kind::reset: {
          const linger hard{1, 0};
          ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
          ended_by_script = over = true;
          break;
        }
      }
    }
    if (!over && !ended_by_script)
      while (take_in()) {
      }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, socket);
  ::close(socket);
  ++ended_;
  changed_.notify_all();
}

}  // namespace sluice::testing
