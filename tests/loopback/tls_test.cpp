// TLS: whom the transport trusts, what it says of those it does not, and that they never see the
// key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <thread>

#include "tests/support/endpoint_world.hpp"

namespace sluice::provider {
namespace {

using namespace std::chrono_literals;
using namespace sluice::testing;
using retry::reason;
using ::testing::HasSubstr;
using ::testing::Not;

#define EXPECT_WHY(report, expected) \
  EXPECT_EQ(retry::name((report).signal.why), retry::name(expected)) << (report).detail

// A private CA and what it signs.
struct authority {
  authority() {
    certificate_wish wish;
    wish.name = "Test CA";
    wish.alternative.clear();
    wish.ca = true;
    root = make_identity(wish);
    file = std::make_unique<scratch_file>(root.certificate);
  }
  identity sign(const certificate_wish& wish) const { return make_identity(wish, &root); }

  identity root;
  std::unique_ptr<scratch_file> file;
};

TEST(Tls, APrivateCaIsTrustedWhenNamed) {
  const authority ca;
  const identity good = ca.sign({});
  for (const bool old : {false, true}) {
    for (const char* host : {"localhost", "127.0.0.1"}) {
      raw_server_options options;
      options.tls = &good;
      options.tls_1_2_only = old;
      raw_server server({good_answer()}, options);
      endpoint_world w(server.url(host));
      w.options.ca_file = ca.file->path();
      const attempt_report r = w.call();
      EXPECT_WHY(r, reason::ok);
      EXPECT_TRUE(r.took.tls);
    }
  }
}

TEST(Tls, AConnectionIsKeptThoughTicketsCameMeanwhile) {
  const authority ca;
  const identity good = ca.sign({});
  raw_server_options options;
  options.tls = &good;
  script three;
  for (int i = 0; i < 3; ++i)
    for (const action& step : good_answer()) three.push_back(step);
  raw_server server({three}, options);
  endpoint_world w(server.url());
  w.options.ca_file = ca.file->path();
  auto on = w.connect();
  EXPECT_TRUE(w.to().alive(*on));
  on.reset();
  for (int i = 0; i < 3; ++i) EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 1U);
}

TEST(Tls, AGoodbyeIsSeenOnAnIdleConnection) {
  const authority ca;
  const identity good = ca.sign({});
  raw_server_options options;
  options.tls = &good;
  for (const action& end : {close_it(), cut_it(), reset_it(), send_bytes("unasked")}) {
    raw_server server({{wait_told(), end}, good_answer()}, options);
    endpoint_world w(server.url());
    w.options.ca_file = ca.file->path();
    auto on = w.connect();
    EXPECT_TRUE(w.to().alive(*on));
    server.go_on();
    while (w.to().alive(*on)) std::this_thread::yield();
    on.reset();
    EXPECT_WHY(w.call(), reason::ok);
    EXPECT_EQ(server.connections(), 2U);
  }
}

TEST(Tls, AReusedConnectionClosedUnansweredIsStale) {
  const authority ca;
  const identity good = ca.sign({});
  raw_server_options options;
  options.tls = &good;
  for (const action& end : {close_it(), cut_it(), reset_it()}) {
    raw_server server({{read_request(), send_bytes(with_length(answer_body)), read_request(), end}},
                      options);
    endpoint_world w(server.url());
    w.options.ca_file = ca.file->path();
    EXPECT_WHY(w.call(), reason::ok);
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::connection_lost);
    EXPECT_TRUE(r.stale_connection);
  }
}

struct distrust {
  const char* name;
  certificate_wish wish;
  bool signed_by_ca;
  bool ca_known;
  const char* host;
  const char* said;
};

class Distrusted : public ::testing::TestWithParam<distrust> {};

TEST_P(Distrusted, IsNamedAndNeverSeesTheKey) {
  const distrust& c = GetParam();
  const authority ca;
  const identity bad = c.signed_by_ca ? ca.sign(c.wish) : make_identity(c.wish);
  raw_server_options options;
  options.tls = &bad;
  raw_server server({good_answer()}, options);
  endpoint_world w(server.url(c.host));
  if (c.ca_known) w.options.ca_file = ca.file->path();
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::certificate_refused);
  EXPECT_THAT(r.detail, HasSubstr(c.said));
  EXPECT_THAT(r.detail, HasSubstr(std::string(c.host) + ':'));
  EXPECT_FALSE(r.signal.may_have_been_billed);
  server.await_ended(1);
  EXPECT_EQ(server.received(), "");
}

certificate_wish wish_of(std::chrono::hours from, std::chrono::hours until) {
  certificate_wish wish;
  wish.from = from;
  wish.until = until;
  return wish;
}

certificate_wish wish_for(const char* names) {
  certificate_wish wish;
  wish.alternative = names;
  return wish;
}

INSTANTIATE_TEST_SUITE_P(
    Tls, Distrusted,
    ::testing::Values(
        distrust{"Expired", wish_of(-48h, -24h), true, true, "localhost", "has expired"},
        distrust{"NotYetValid", wish_of(24h, 48h), true, true, "localhost", "not valid yet"},
        distrust{"SelfSigned", {}, false, true, "localhost", "self-signed"},
        distrust{"UnknownCa", {}, true, false, "localhost", "unknown CA"},
        distrust{"OtherName", wish_for("DNS:other.example"), true, true, "localhost",
                 "for another host"},
        distrust{"OtherAddress", wish_for("IP:10.0.0.1"), true, true, "127.0.0.1",
                 "not for this address"},
        // The common name is localhost, but where there is a list it does not count.
        distrust{"PartOfAName", wish_for("DNS:l*t"), true, true, "localhost", "for another host"}),
    [](const auto& c) { return c.param.name; });

TEST(Tls, AnOldProtocolIsRefused) {
  const authority ca;
  const identity good = ca.sign({});
  raw_server_options options;
  options.tls = &good;
  options.old_tls_only = true;
  raw_server server({good_answer()}, options);
  endpoint_world w(server.url());
  w.options.ca_file = ca.file->path();
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::certificate_refused);
  EXPECT_THAT(r.detail, HasSubstr("TLS 1.2"));
}

TEST(Tls, AHandshakeThatIsCutIsAPassingFailure) {
  for (const action& end : {close_it(), reset_it()}) {
    raw_server plain({{read_some(), end}});
    endpoint_world w("https://127.0.0.1:" + std::to_string(plain.port()));
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::tls_failure);
    EXPECT_THAT(r.detail, HasSubstr("TLS handshake with 127.0.0.1:"));
    EXPECT_THAT(plain.received(), Not(HasSubstr(test_key)));
  }
}

TEST(Tls, AServerThatDoesNotSpeakItIsSaidSo) {
  raw_server plain({{send_bytes("HTTP/1.1 400 Bad Request\r\n\r\n"), wait_closed()}});
  endpoint_world w("https://127.0.0.1:" + std::to_string(plain.port()));
  const attempt_report r = w.call();
  // It cannot heal, so the run is to end with 78.
  EXPECT_WHY(r, reason::certificate_refused);
  EXPECT_THAT(r.detail, HasSubstr("say http://"));
}

TEST(Tls, ASilentHandshakeIsBounded) {
  raw_server_options options;
  options.accept_only = true;
  raw_server server({script()}, options);
  endpoint_world w("https://127.0.0.1:" + std::to_string(server.port()));
  w.options.connect_timeout = 50ms;
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::tls_failure);
  EXPECT_THAT(r.detail, HasSubstr("0.05 s"));
  server.await_ended(1);
}

TEST(Tls, AbortEndsAHandshake) {
  raw_server_options options;
  options.accept_only = true;
  raw_server server({script()}, options);
  endpoint_world w("https://127.0.0.1:" + std::to_string(server.port()));
  w.to();
  std::thread hand([&] {
    while (server.connections() < 1) std::this_thread::yield();
    boost::asio::post(w.context, [&] { w.to().abort(); });
  });
  const attempt_report r = w.call();
  hand.join();
  EXPECT_WHY(r, reason::interrupted);
  EXPECT_FALSE(r.signal.may_have_been_billed);
  server.await_ended(1);
}

TEST(Tls, AClientCertificateIsShownWhereItIsAskedFor) {
  const authority ca;
  const identity good = ca.sign({});
  const identity me = ca.sign({});
  const scratch_file certificate(me.certificate);
  const scratch_file key(me.key);
  const scratch_file both(me.key + me.certificate);
  for (const bool old : {false, true}) {
    raw_server_options options;
    options.tls = &good;
    options.tls_1_2_only = old;
    options.client_ca = &ca.root;
    for (const bool together : {false, true}) {
      raw_server server({good_answer()}, options);
      endpoint_world w(server.url());
      w.options.ca_file = ca.file->path();
      w.options.client_cert = together ? both.path() : certificate.path();
      if (!together) w.options.client_key = key.path();
      EXPECT_WHY(w.call(), reason::ok);
    }
  }
}

TEST(Tls, AServerThatMissesOrRefusesAClientCertificateIsSaidSo) {
  const authority ca;
  const authority other;
  const identity good = ca.sign({});
  const identity me = other.sign({});
  const scratch_file both(me.key + me.certificate);
  for (const bool old : {false, true}) {
    for (const bool none : {false, true}) {
      raw_server_options options;
      options.tls = &good;
      options.tls_1_2_only = old;
      options.client_ca = &ca.root;
      raw_server server({good_answer()}, options);
      endpoint_world w(server.url());
      w.options.ca_file = ca.file->path();
      if (!none) w.options.client_cert = both.path();
      const attempt_report r = w.call();
      EXPECT_WHY(r, reason::certificate_refused);
      EXPECT_THAT(r.detail, HasSubstr("--client-cert"));
      EXPECT_THAT(server.received(), Not(HasSubstr(test_key)));
    }
  }
}

TEST(Tls, AClientCertificateThatCannotBeUsedIsNamed) {
  const identity me = make_identity({});
  const identity other = make_identity({});
  const scratch_file certificate(me.certificate);
  const scratch_file key(me.key);
  const scratch_file other_key(other.key);
  const scratch_file no_pem("this is neither\n");
  struct row {
    std::string certificate;
    std::string key;
    const char* said;
  };
  const row rows[] = {{"/nonexistent.pem", key.path(), "--client-cert"},
                      {no_pem.path(), key.path(), "no certificate in PEM form"},
                      {certificate.path(), "/nonexistent.pem", "--client-key"},
                      {certificate.path(), no_pem.path(), "no key in PEM form"},
                      {certificate.path(), "", "no key in PEM form"},
                      {certificate.path(), other_key.path(), "another certificate"},
                      {"", key.path(), "no certificate to go with it"}};
  for (const row& r : rows) {
    endpoint_world w("https://127.0.0.1:9");
    w.options.client_cert = r.certificate;
    w.options.client_key = r.key;
    try {
      w.to();
      ADD_FAILURE() << r.said;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr(r.said));
    }
  }
}

TEST(Tls, ACaFileThatCannotBeUsedIsNamed) {
  const scratch_file no_pem("this is no certificate\n");
  for (const auto& [path, said] :
       {std::pair<std::string, const char*>{"/nonexistent/ca.pem", "No such file"},
        std::pair<std::string, const char*>{no_pem.path(), "no certificate"},
        std::pair<std::string, const char*>{"/tmp", "CA file '/tmp'"}}) {
    endpoint_world w("https://127.0.0.1:9");
    w.options.ca_file = path;
    try {
      w.to();
      ADD_FAILURE() << path << " was taken";
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr(path));
      EXPECT_THAT(e.what(), HasSubstr(said));
      EXPECT_THAT(e.what(), HasSubstr("--ca-file"));
    }
  }
}

}  // namespace
}  // namespace sluice::provider
