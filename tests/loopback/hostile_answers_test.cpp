// Answers made to exhaust whoever reads them: each ends by a limit, in little memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/compress.hpp"
#include "tests/support/endpoint_world.hpp"

namespace {

// What is allocated now, and the most since it was last looked at. For the whole program: the
// operators can be replaced only once.
std::atomic<std::size_t> allocated{0};
std::atomic<std::size_t> most{0};

void* counted(std::size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  const std::size_t now = allocated += malloc_usable_size(p);
  std::size_t before = most;
  while (before < now && !most.compare_exchange_weak(before, now)) {
  }
  return p;
}

void freed(void* p) {
  allocated -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* p) noexcept {
  freed(p);
}
void operator delete[](void* p) noexcept {
  freed(p);
}
void operator delete(void* p, std::size_t) noexcept {
  freed(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  freed(p);
}

namespace sluice::provider {
namespace {

using namespace sluice::testing;
using fixtures::raw_step;
using retry::reason;

constexpr std::size_t allowed = std::size_t{16} << 20U;
const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

raw_step say(std::string bytes, unsigned times = 1) {
  raw_step step;
  step.bytes = std::move(bytes);
  step.times = times;
  return step;
}

std::string of_length(std::size_t size) {
  return head + "Content-Length: " + std::to_string(size) + "\r\n\r\n";
}

struct hostile {
  const char* name;
  std::vector<raw_step> steps;
  reason expected;
};

// A chunk of 64 KiB, again and again.
std::string chunk() {
  return "10000\r\n" + std::string(65536, ' ') + "\r\n";
}

std::vector<raw_step> bomb(const std::string& body, const char* coding) {
  return {say("HTTP/1.1 200 OK\r\nContent-Encoding: " + std::string(coding) +
              "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n"),
          say(body)};
}

std::vector<hostile> all() {
  const std::string zeros(std::size_t{64} << 20U, '0');
  const std::string packed = compress(zeros, wrapper::gzip);
  return {
      {"BodyWithoutEnd", {say(head + "\r\n"), say(std::string(65536, ' '), 1U << 20U)},
       reason::response_too_large},
      {"ChunksWithoutEnd", {say(head + "Transfer-Encoding: chunked\r\n\r\n"), say(chunk(), 1U << 20U)},
       reason::response_too_large},
      {"AGibibyteAnnounced", {say(of_length(std::size_t{1} << 30U)), say(std::string(65536, ' '), 16384)},
       reason::response_too_large},
      {"NestedBrackets", {say(of_length(100000)), say(std::string(100000, '['))},
       reason::malformed_response},
      {"NestedObjects",
       {say(of_length(1000000)), say("{\"choices\":", 90000), say(std::string(10000, ' '))},
       reason::malformed_response},
      {"TwoMillionZeros", {say(of_length(2000000)), say(std::string(2000000, '0'))}, reason::not_json},
      {"ANumberOfTwoMillionZeros",
       {say(of_length(2000011)), say("{\"choices\":"), say(std::string(2000000, '0'))},
       reason::malformed_response},
      {"ATextOfTwoMillionEscapes",
       {say(of_length(2000000)), say("{\"choices\":[{\"message\":{\"content\":\""),
        say("\\u0030", 333327), say("\"}}]}")},
       reason::malformed_response},
      {"GzipBomb", bomb(packed, "gzip"), reason::response_too_large},
      {"GzipBombTwice", bomb(compress(packed, wrapper::gzip), "gzip, gzip"),
       reason::response_too_large},
      {"DeflateBomb", bomb(compress(zeros, wrapper::none), "deflate"), reason::response_too_large},
      {"TenMebibytesOfHeaders", {say(head), say("X-Field: " + std::string(1000, 'x') + "\r\n", 10240)},
       reason::malformed_response},
      {"AHeaderLineWithoutEnd", {say(head + "X: "), say(std::string(65536, 'x'), 160)},
       reason::malformed_response},
      {"InterimAnswersWithoutEnd", {say("HTTP/1.1 102 Processing\r\n\r\n", 1U << 20U)},
       reason::malformed_response},
      {"EventsWithoutEnd",
       {say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"),
        say("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 1U << 20U)},
       reason::response_too_large},
  };
}

TEST(HostileAnswer, EndsByALimitInLittleMemory) {
  for (const hostile& h : all()) {
    SCOPED_TRACE(h.name);
    fixtures::fake_options options;
    options.limit.reset();
    options.script = [&h](unsigned, const std::string&) {
      fixtures::scripted_answer a;
      a.steps = h.steps;
      return std::optional<fixtures::scripted_answer>(std::move(a));
    };
    const fixtures::fake_endpoint server(options);
    endpoint_world w(server.url());
    w.options.keep_bodies = true;
    w.to();
    const std::size_t base = allocated;
    most = base;
    const std::string request = R"({"model":"m","messages":[{"role":"user","content":"x"}]})";
    const attempt_report r = w.call(request);
    const std::size_t used = most - base;
    EXPECT_EQ(retry::name(r.signal.why), retry::name(h.expected)) << r.detail;
    EXPECT_LE(r.detail.size(), 200U);
    EXPECT_LE(used, allowed);
  }
}

}  // namespace
}  // namespace sluice::provider
