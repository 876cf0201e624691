#include "pipeline/outcomes/fingerprint.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace sluice::pipeline {
namespace {

struct context_free {
  void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
};
using context = std::unique_ptr<EVP_MD_CTX, context_free>;

void must(int ok) {
  if (ok != 1) throw std::runtime_error("OpenSSL offers no SHA-256; check its installation");
}

// Each part goes in with its length before it, so that no two lists of parts look the same.
void add(EVP_MD_CTX* to, std::string_view part) {
  std::array<std::uint8_t, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::uint8_t>(std::uint64_t{part.size()} >> (8 * i));
  must(EVP_DigestUpdate(to, length.data(), length.size()));
  must(EVP_DigestUpdate(to, part.data(), part.size()));
}

}  // namespace

struct fingerprinter::state {
  context of_run{EVP_MD_CTX_new()};
  context scratch{EVP_MD_CTX_new()};
};

fingerprinter::fingerprinter(std::string_view origin, std::string_view model,
                             std::string_view parameters, std::string_view prompt)
    : state_(std::make_unique<state>()) {
  must(EVP_DigestInit_ex(state_->of_run.get(), EVP_sha256(), nullptr));
  for (const std::string_view part :
       {std::string_view("sluice 1"), origin, model, parameters, prompt})
    add(state_->of_run.get(), part);
}

fingerprinter::~fingerprinter() = default;
fingerprinter::fingerprinter(fingerprinter&&) noexcept = default;
fingerprinter& fingerprinter::operator=(fingerprinter&&) noexcept = default;

fingerprint fingerprinter::of(const document& d) const {
  EVP_MD_CTX* c = state_->scratch.get();
  must(EVP_MD_CTX_copy_ex(c, state_->of_run.get()));
  const bool conversation = !d.messages.empty();
  add(c, conversation ? "messages" : "text");
  add(c, conversation ? d.messages : d.text);
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  must(EVP_DigestFinal_ex(c, digest.data(), nullptr));
  fingerprint first{};
  std::copy_n(digest.begin(), first.size(), first.begin());
  return first;
}

}  // namespace sluice::pipeline
