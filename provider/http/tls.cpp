#include "provider/http/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

namespace sluice::provider {
namespace {

// A socket BIO that cannot raise SIGPIPE; OpenSSL's own writes without MSG_NOSIGNAL.
int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int after_io(BIO* bio, ssize_t n, int retry_flag) {
  BIO_clear_retry_flags(bio);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(n);
}

int bio_write(BIO* bio, const char* from, int size) {
  ssize_t n = -1;
  do {
    n = ::send(socket_of(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return after_io(bio, n, BIO_FLAGS_WRITE);
}

int bio_read(BIO* bio, char* to, int size) {
  ssize_t n = -1;
  do {
    n = ::recv(socket_of(bio), to, static_cast<std::size_t>(size), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return after_io(bio, n, BIO_FLAGS_READ);
}

long bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (m == nullptr) throw std::bad_alloc();
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_ctrl(m, bio_control);
    return m;
  }();
  return method;
}

// One of the files that a user may name.
struct file_kind {
  const char* name;
  const char* empty;
  const char* remedy;
};
constexpr file_kind ca_kind{"CA file", "holds no certificate in PEM form",
                            "name a file of PEM certificates with --ca-file"};
constexpr file_kind certificate_kind{"client certificate", "holds no certificate in PEM form",
                                     "name a PEM certificate with --client-cert"};
constexpr file_kind key_kind{"client key", "holds no key in PEM form that is not encrypted",
                             "name the PEM key of --client-cert with --client-key"};

[[noreturn]] void bad_file(const file_kind& kind, const std::string& file,
                           const std::string& cause) {
  throw std::invalid_argument(std::string(kind.name) + " '" + file + "' " + cause + "; " +
                              kind.remedy);
}

void must_be_readable(const file_kind& kind, const std::string& file) {
  errno = 0;
  const std::ifstream probe(file);
  if (!probe) bad_file(kind, file, std::string("cannot be read: ") + std::strerror(errno));
}

std::string last_error_text() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "unknown TLS error";
}

// What OpenSSL could not make of a file, and clears its memory of it.
[[noreturn]] void unusable(const file_kind& kind, const std::string& file) {
  std::string cause = "cannot be used: " + last_error_text();
  // The reason proper may lie below what was made of it.
  while (const unsigned long code = ERR_get_error()) {
    const int why = ERR_GET_REASON(code);
    if (why == X509_R_NO_CERTIFICATE_OR_CRL_FOUND || why == PEM_R_NO_START_LINE ||
        why == PEM_R_BAD_PASSWORD_READ || why == ERR_R_UNSUPPORTED)
      cause = kind.empty;
  }
  bad_file(kind, file, cause);
}

// Nobody is there at night to type a passphrase.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

void present(SSL_CTX* c, const tls_files& files) {
  if (files.certificate.empty()) {
    if (!files.key.empty()) bad_file(key_kind, files.key, "has no certificate to go with it");
    return;
  }
  SSL_CTX_set_default_passwd_cb(c, no_passphrase);
  must_be_readable(certificate_kind, files.certificate);
  if (SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) != 1)
    unusable(certificate_kind, files.certificate);
  const std::string& key = files.key.empty() ? files.certificate : files.key;
  must_be_readable(key_kind, key);
  if (SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
      ERR_clear_error();
      bad_file(key_kind, key, "belongs to another certificate");
    }
    unusable(key_kind, key);
  }
}

struct alert_row {
  int reason;
  const char* cause;
};
constexpr alert_row alerts[] = {
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
     "the server asks for a client certificate; name one with --client-cert"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
     "the server refuses the client certificate; check --client-cert"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
     "the server cannot use a client certificate of this kind; check --client-cert"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
     "the server says that the client certificate was revoked; check --client-cert"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
     "the server says that the client certificate has expired; check --client-cert"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN,
     "the server refuses the client certificate; check --client-cert"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA,
     "the server does not know the CA of the client certificate; check --client-cert"},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
     "the server cannot verify the client certificate; check --client-cert"},
    {SSL_R_TLSV1_ALERT_ACCESS_DENIED,
     "the server denies access to the client certificate; check --client-cert"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
     "the server refuses the handshake; if it asks for a client certificate, name one with "
     "--client-cert"},
};

struct verdict_row {
  long code;
  const char* cause;
};
constexpr const char* trust_remedy = "if that is right, name the CA with --ca-file";
constexpr std::array verdicts{
    verdict_row{X509_V_ERR_CERT_HAS_EXPIRED,
                "has expired; renew it there, or check this machine's clock"},
    verdict_row{X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet; check this machine's clock"},
    verdict_row{X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                "is self-signed; if that is right, name it with --ca-file"},
    verdict_row{X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
                "ends in a self-signed CA that is not trusted here; if that is right, name the CA "
                "with --ca-file"},
    verdict_row{X509_V_ERR_HOSTNAME_MISMATCH, "is for another host; check the host in --endpoint"},
    verdict_row{X509_V_ERR_IP_ADDRESS_MISMATCH,
                "is not for this address; say the host by its name in --endpoint"},
    verdict_row{X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                "is signed by an unknown CA; if that is right, name the CA with --ca-file"},
    verdict_row{X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
                "is signed by an unknown CA; if that is right, name the CA with --ca-file"},
    verdict_row{X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
                "is signed by an unknown CA; if that is right, name the CA with --ca-file"},
    verdict_row{X509_V_ERR_CERT_REVOKED, "has been revoked; renew it there"},
    verdict_row{X509_V_ERR_EE_KEY_TOO_SMALL, "has too weak a key; renew it there"},
    verdict_row{X509_V_ERR_CA_KEY_TOO_SMALL, "has a CA with too weak a key; renew it there"},
    verdict_row{X509_V_ERR_CA_MD_TOO_WEAK, "is signed too weakly; renew it there"},
};

}  // namespace

tls_context::tls_context(const tls_files& files) : context_(SSL_CTX_new(TLS_client_method())) {
  if (!context_) throw std::runtime_error("OpenSSL cannot be set up: " + last_error_text());
  SSL_CTX* c = context_.get();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  // A machine without a CA store refuses every certificate; the user is told then.
  SSL_CTX_set_default_verify_paths(c);
  constexpr std::array<unsigned char, 9> http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(c, http_1_1.data(), http_1_1.size());
  ERR_clear_error();
  if (!files.ca.empty()) {
    must_be_readable(ca_kind, files.ca);
    if (SSL_CTX_load_verify_file(c, files.ca.c_str()) != 1) unusable(ca_kind, files.ca);
  }
  present(c, files);
}

tls_session::tls_session(const tls_context& context, int socket, const std::string& host,
                         bool address)
    : ssl_(SSL_new(context.get())) {
  BIO* bio = ssl_ ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_connect_state(ssl_.get());
  X509_VERIFY_PARAM* checks = SSL_get0_param(ssl_.get());
  bool armed = false;
  if (address) {
    armed = X509_VERIFY_PARAM_set1_ip_asc(checks, host.c_str()) == 1;
  } else {
    // A final dot is for the resolver; certificates do without.
    const std::string name = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
    X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    armed = X509_VERIFY_PARAM_set1_host(checks, name.c_str(), name.size()) == 1 &&
            SSL_set_tlsext_host_name(ssl_.get(), name.c_str()) == 1;
  }
  // Without a host to check against any valid certificate would do.
  if (!armed) throw std::runtime_error("the host cannot be checked by TLS: " + host);
}

io_result tls_session::ended(int returned, std::size_t bytes) {
  io_result out;
  if (returned > 0) {
    out.bytes = bytes;
    return out;
  }
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      out.ended = io_result::what::want_read;
      return out;
    case SSL_ERROR_WANT_WRITE:
      out.ended = io_result::what::want_write;
      return out;
    case SSL_ERROR_ZERO_RETURN:
      out.ended = io_result::what::closed;
      return out;
    case SSL_ERROR_SYSCALL:
      out.error = system_error;
      out.ended = system_error == 0 ? io_result::what::truncated : io_result::what::failed;
      break;
    default:
      tls_error_ = ERR_peek_error();
      out.ended = ERR_GET_REASON(tls_error_) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                      ? io_result::what::truncated
                      : io_result::what::failed;
  }
  healthy_ = false;
  ERR_clear_error();
  return out;
}

io_result tls_session::handshake() {
  ERR_clear_error();
  errno = 0;
  const int returned = SSL_do_handshake(ssl_.get());
  healthy_ = returned == 1;
  return ended(returned, 0);
}

io_result tls_session::read(void* to, std::size_t size) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int returned = SSL_read_ex(ssl_.get(), to, size, &bytes);
  return ended(returned, bytes);
}

io_result tls_session::write(const void* from, std::size_t size) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int returned = SSL_write_ex(ssl_.get(), from, size, &bytes);
  return ended(returned, bytes);
}

io_result tls_session::peek() {
  ERR_clear_error();
  errno = 0;
  char one = 0;
  std::size_t bytes = 0;
  const int returned = SSL_peek_ex(ssl_.get(), &one, 1, &bytes);
  return ended(returned, bytes);
}

void tls_session::goodbye() {
  if (!healthy_) return;
  healthy_ = false;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::optional<std::string> tls_session::objection() const {
  for (const alert_row& row : alerts)
    if (ERR_GET_REASON(tls_error_) == row.reason) return row.cause;
  return std::nullopt;
}

tls_refusal tls_session::refusal(const io_result& how) const {
  tls_refusal out;
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (verdict != X509_V_OK) {
    out.lasting = true;
    for (const verdict_row& row : verdicts)
      if (row.code == verdict) out.cause = std::string("the certificate ") + row.cause;
    if (out.cause.empty())
      out.cause = std::string("the certificate is refused: ") +
                  X509_verify_cert_error_string(verdict) + "; " + trust_remedy;
    return out;
  }
  if (how.ended == io_result::what::truncated || how.ended == io_result::what::closed) {
    out.cause = "the server closed the connection";
    return out;
  }
  if (how.error != 0) {
    out.cause = std::strerror(how.error);
    return out;
  }
  if (const auto against = objection()) {
    out.lasting = true;
    out.cause = *against;
    return out;
  }
  switch (ERR_GET_REASON(tls_error_)) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_WRONG_SSL_VERSION:
      out.lasting = true;
      out.cause = "the server speaks no TLS 1.2 or later; bring it up to date";
      return out;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      out.lasting = true;
      out.cause = "the server does not speak TLS here; say http:// or another port";
      return out;
    default:
      break;
  }
  const char* text = ERR_reason_error_string(tls_error_);
  out.cause = text != nullptr ? text : "the handshake failed";
  return out;
}

}  // namespace sluice::provider
