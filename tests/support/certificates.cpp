#include "tests/support/certificates.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>

namespace sluice::testing {
namespace {

template <auto F>
struct freed {
  template <class T>
  void operator()(T* p) const {
    F(p);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>>;
using cert_ptr = std::unique_ptr<X509, freed<X509_free>>;
using bio_ptr = std::unique_ptr<BIO, freed<BIO_free_all>>;

void need(bool ok) {
  if (!ok) throw std::runtime_error("OpenSSL did not make a certificate");
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bio_ptr bio_over(const std::string& text) {
  return bio_ptr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

void extend(X509* cert, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  need(extension != nullptr && X509_add_ext(cert, extension.get(), -1) == 1);
}

}  // namespace

identity make_identity(const certificate_wish& wish, const identity* issuer) {
  static std::atomic<long> serial{1};
  const key_ptr key(EVP_EC_gen("P-256"));
  const cert_ptr cert(X509_new());
  need(key && cert);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), std::chrono::seconds(wish.from).count());
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), std::chrono::seconds(wish.until).count());
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(wish.name.c_str()), -1, -1, 0);

  cert_ptr issuer_cert;
  key_ptr issuer_key;
  if (issuer != nullptr) {
    issuer_cert.reset(
        PEM_read_bio_X509(bio_over(issuer->certificate).get(), nullptr, nullptr, nullptr));
    issuer_key.reset(
        PEM_read_bio_PrivateKey(bio_over(issuer->key).get(), nullptr, nullptr, nullptr));
    need(issuer_cert && issuer_key);
  }
  X509* signer = issuer_cert ? issuer_cert.get() : cert.get();
  X509_set_issuer_name(cert.get(), X509_get_subject_name(signer));
  extend(cert.get(), signer, NID_basic_constraints, wish.ca ? "critical,CA:TRUE" : "CA:FALSE");
  if (!wish.alternative.empty()) extend(cert.get(), signer, NID_subject_alt_name, wish.alternative);
  need(X509_sign(cert.get(), issuer_key ? issuer_key.get() : key.get(), EVP_sha256()) > 0);

  const bio_ptr cert_out(BIO_new(BIO_s_mem()));
  const bio_ptr key_out(BIO_new(BIO_s_mem()));
  need(PEM_write_bio_X509(cert_out.get(), cert.get()) == 1);
  need(PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) ==
       1);
  return identity{text_of(cert_out.get()), text_of(key_out.get())};
}

scratch_file::scratch_file(const std::string& content) : path_("/tmp/sluice_test_XXXXXX") {
  const int file = mkstemp(path_.data());
  if (file < 0) throw std::runtime_error("no scratch file");
  const auto written = ::write(file, content.data(), content.size());
  ::close(file);
  if (written != static_cast<ssize_t>(content.size())) throw std::runtime_error("no scratch file");
}

scratch_file::~scratch_file() {
  ::unlink(path_.c_str());
}

}  // namespace sluice::testing
