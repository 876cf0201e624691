// Answers made to exhaust whoever reads them: each ends by a limit, in little memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/endpoint_world.hpp"
#include "tests/support/hostile_answers.hpp"

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
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
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
constexpr std::size_t allowed = std::size_t{16} << 20U;

TEST(HostileAnswer, EndsByALimitInLittleMemory) {
  for (const hostile& h : hostile_answers()) {
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
