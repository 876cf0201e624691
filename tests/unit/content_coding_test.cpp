// Compressed bodies: what is undone, what is left alone, and where it stops.
#include "provider/http/content_coding.hpp"

#include <gtest/gtest.h>

#include "tests/support/compress.hpp"

namespace sluice::provider {
namespace {

using namespace sluice::testing;

constexpr std::size_t limit = 1U << 20U;
const std::string json = R"({"choices":[{"message":{"content":"hello"}}]})";

http_answer encoded(std::string body, std::string coding) {
  http_answer a;
  a.status = 200;
  a.headers = {{"content-type", "application/json"}, {"content-encoding", std::move(coding)}};
  a.body = std::move(body);
  return a;
}

void expect_plain(http_answer a) {
  SCOPED_TRACE(a.headers.back().second);
  EXPECT_EQ(decode_body(a, limit), decoded::done);
  EXPECT_EQ(a.body, json);
  EXPECT_EQ(a.headers.size(), 1U);
}

TEST(ContentCoding, AllWaysToSayGzipAndDeflateAreUndone) {
  expect_plain(encoded(compress(json, wrapper::gzip), "gzip"));
  expect_plain(encoded(compress(json, wrapper::gzip), "x-gzip"));
  expect_plain(encoded(compress(json, wrapper::gzip), " GZip "));
  expect_plain(encoded(compress(json, wrapper::zlib), "deflate"));
  expect_plain(encoded(compress(json, wrapper::none), "deflate"));
  expect_plain(encoded(compress(json, wrapper::gzip), "identity, gzip"));
  expect_plain(encoded(compress(compress(json, wrapper::zlib), wrapper::gzip), "deflate, gzip"));
}

TEST(ContentCoding, SeveralMembersMakeOneBody) {
  expect_plain(
      encoded(compress(json.substr(0, 9), wrapper::gzip) + compress(json.substr(9), wrapper::gzip),
              "gzip"));
  expect_plain(encoded(compress(json, wrapper::gzip) + "padding", "gzip"));
}

TEST(ContentCoding, PlainJsonThatIsSaidToBeEncodedIsTaken) {
  expect_plain(encoded(json, "gzip"));
  expect_plain(encoded(json, "br"));
}

TEST(ContentCoding, OtherCodingsAreLeftAsTheyAre) {
  for (const char* coding : {"br", "zstd", "compress", "gzip, br", "gzip, gzip, gzip, gzip"}) {
    http_answer a = encoded("\x1b\x02\x03", coding);
    EXPECT_EQ(decode_body(a, limit), decoded::unsupported) << coding;
    EXPECT_EQ(a.body, "\x1b\x02\x03");
    EXPECT_EQ(a.headers.size(), 2U);
  }
}

TEST(ContentCoding, CutAtAnyByteItIsBroken) {
  for (const auto& [how, name] :
       {std::pair{wrapper::gzip, "gzip"}, {wrapper::zlib, "deflate"}, {wrapper::none, "deflate"}}) {
    const std::string whole = compress(json, how);
    for (std::size_t size = 1; size < whole.size(); ++size) {
      http_answer a = encoded(whole.substr(0, size), name);
      EXPECT_NE(decode_body(a, limit), decoded::done) << name << " " << size;
      EXPECT_TRUE(a.body.empty());
    }
  }
}

TEST(ContentCoding, ADamagedChecksumIsBroken) {
  std::string body = compress(json, wrapper::gzip);
  body[body.size() - 5] ^= 0x55;
  http_answer a = encoded(body, "gzip");
  EXPECT_EQ(decode_body(a, limit), decoded::broken);
}

TEST(ContentCoding, ABombStopsAtTheLimit) {
  const std::string zeros(64U << 20U, '0');
  for (const auto& [how, name] : {std::pair{wrapper::gzip, "gzip"}, {wrapper::none, "deflate"}}) {
    http_answer a = encoded(compress(zeros, how), name);
    EXPECT_EQ(decode_body(a, limit), decoded::over_limit);
    EXPECT_EQ(a.body.capacity(), std::string().capacity());
  }
  http_answer nested =
      encoded(compress(compress(zeros, wrapper::gzip), wrapper::gzip), "gzip, gzip");
  EXPECT_EQ(decode_body(nested, limit), decoded::over_limit);
}

TEST(ContentCoding, TheLargestAllowedBodyIsTaken) {
  http_answer a = encoded(compress(std::string(limit, 'x'), wrapper::gzip), "gzip");
  EXPECT_EQ(decode_body(a, limit), decoded::done);
  http_answer b = encoded(compress(std::string(limit + 1, 'x'), wrapper::gzip), "gzip");
  EXPECT_EQ(decode_body(b, limit), decoded::over_limit);
}

}  // namespace
}  // namespace sluice::provider
