#include "app/gate/use_gate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <random>

#include "pipeline/real_clock.hpp"
#include "provider/http/poster.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr int configuration = retry::exit_code::configuration;
// A call may begin a moment after its slot, and its end takes a moment to be told.
constexpr duration lease_margin = 30s;
constexpr duration look_time = 2s;

class http_wire final : public pipeline::gate_wire {
 public:
  http_wire(asio::any_io_executor executor, provider::poster_options options)
      : poster_(std::move(executor), std::move(options)) {}

  asio::awaitable<pipeline::gate_reply> send(std::string path, std::string body,
                                             duration within) override {
    using how = provider::post_result::how;
    provider::post_result got = co_await poster_.send(std::move(path), std::move(body), within);
    pipeline::gate_reply reply;
    if (got.ended == how::answered) reply.ended = pipeline::gate_reply::how::answered;
    if (got.ended == how::mistaken) reply.ended = pipeline::gate_reply::how::mistaken;
    if (got.ended == how::aborted) reply.ended = pipeline::gate_reply::how::aborted;
    reply.status = got.status;
    reply.body = std::move(got.body);
    reply.cause = std::move(got.cause);
    reply.reached = got.reached;
    co_return reply;
  }
  void abort() override { poster_.abort(); }

 private:
  provider::poster poster_;
};

provider::poster_options way_to(const settings& s, pipeline::clock& time) {
  provider::poster_options o;
  try {
    o.url = provider::parse_base_url(s.gate);
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, std::string("--gate: ") + e.what());
  }
  o.token = load_gate_token(s);
  if (!o.token.empty() && !o.url.tls && !o.url.loopback())
    throw settings_error(configuration, "--gate " + o.url.origin +
                                            ": the token would travel unencrypted; say https://");
  o.ca_file = s.ca_file;
  o.connect_timeout = std::min(s.connect_timeout, std::max<duration>(s.admission_timeout, 1s));
  o.now = [&time] { return time.now(); };
  return o;
}

std::unique_ptr<http_wire> make_wire(asio::any_io_executor executor,
                                     provider::poster_options options) {
  try {
    return std::make_unique<http_wire>(std::move(executor), std::move(options));
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, e.what());
  }
}

// The gate's settings, if it answers.
std::optional<pipeline::budget_settings> look_at(const settings& s, const std::string& name) {
  asio::io_context context(1);
  pipeline::real_clock time(context.get_executor());
  provider::poster_options options = way_to(s, time);
  options.connect_timeout = look_time;
  const auto wire = make_wire(context.get_executor(), std::move(options));
  pipeline::gate_reply reply;
  std::exception_ptr trouble;
  asio::co_spawn(context, wire->send("/v1/budget", "", look_time),
                 [&](std::exception_ptr e, pipeline::gate_reply r) {
                   trouble = e;
                   reply = std::move(r);
                 });
  context.run();
  if (trouble) std::rethrow_exception(trouble);
  if (reply.ended == pipeline::gate_reply::how::mistaken)
    throw settings_error(configuration, "gate " + name + ": " + reply.cause);
  if (reply.ended != pipeline::gate_reply::how::answered || reply.status >= 500)
    return std::nullopt;
  if (reply.status == 401)
    throw settings_error(
        configuration,
        "gate " + name + ": refuses the token; give --gate-token-file, or set SLUICE_GATE_TOKEN");
  auto its = pipeline::parse_settings(reply.body);
  if (reply.status != 200 || !its) {
    const auto said = pipeline::parse_slot_answer(reply.status, reply.body);
    throw settings_error(configuration,
                         "gate " + name + ": answers with " + std::to_string(reply.status) +
                             (said && !said->message.empty() ? ": " + said->message
                                                             : "; check the address in --gate"));
  }
  return its;
}

// Process IDs are the same in many containers.
std::string job_name(std::random_device& entropy) {
  std::array<char, 64> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("{}/{}/{:08x}", host.data(), ::getpid(), entropy());
}

}  // namespace

std::shared_ptr<pipeline::gate_ledger> use_gate(settings& s, asio::any_io_executor executor,
                                                pipeline::clock& time, std::uint64_t seed) {
  if (s.gate.empty()) return nullptr;
  if (!s.budget.empty())
    throw settings_error(configuration, "--budget and --gate: one budget is enough; drop one");
  const provider::poster_options way = way_to(s, time);
  const std::string name = way.url.origin;
  const std::vector<pipeline::limit> asked = s.limits;
  if (const auto its = look_at(s, name)) {
    if (s.limit_given && !same_limits(asked, its->limits))
      throw settings_error(configuration, "gate " + name + ": has the limit " +
                                              in_words(its->limits) + ", not " + in_words(asked) +
                                              "; leave --limit out to take the gate's, or start "
                                              "the gate with another");
    s.limits = its->limits;
  }
  std::random_device entropy;
  pipeline::gate_use how;
  how.name = name;
  how.job = job_name(entropy);
  how.shape = s.pace;
  how.priority = s.priority;
  how.admission_timeout = s.admission_timeout;
  how.longest_call = s.timeout + lease_margin;
  if (s.limit_given) how.limits = asked;
  how.seed = seed ^ entropy();
  return std::make_shared<pipeline::gate_ledger>(executor, time, make_wire(executor, way),
                                                 make_wire(executor, way), std::move(how));
}

}  // namespace sluice::app
