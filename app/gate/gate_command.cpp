#include "app/gate/gate_command.hpp"

#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "app/exit_codes.hpp"
#include "app/gate/listener.hpp"
#include "app/gate/state_file.hpp"
#include "app/settings.hpp"
#include "pipeline/admission/budget_file.hpp"
#include "pipeline/real_clock.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

constexpr int configuration = retry::exit_code::configuration;
constexpr std::size_t shortest_token = 16;

// As many connections as the system lets us have; the usual soft limit is about a thousand.
void raise_descriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

listener_options options_of(const gate_command& what) {
  listener_options o;
  o.host = what.host == "localhost" ? "127.0.0.1" : what.host;
  o.port = what.port;
  o.tls_cert = what.tls_cert;
  o.tls_key = what.tls_key;
  boost::system::error_code ec;
  const auto address = asio::ip::make_address(o.host, ec);
  const bool loopback = !ec && address.is_loopback();
  if (what.tls_cert.empty() != what.tls_key.empty())
    throw settings_error(configuration, "--tls-cert and --tls-key go together; give both");
  if (!loopback && (what.token_file.empty() || what.tls_cert.empty()))
    throw settings_error(configuration,
                         "--listen " + what.host +
                             ": others can reach this address; give --token-file, --tls-cert and "
                             "--tls-key, or listen on 127.0.0.1");
  if (!what.token_file.empty()) {
    o.rules.token = read_secret(what.token_file, "token file");
    if (o.rules.token.size() < shortest_token)
      throw settings_error(configuration, "token file " + what.token_file +
                                              ": has fewer than 16 bytes; make one with "
                                              "`openssl rand -hex 32`");
  }
  o.rules.hosts = {"localhost", "127.0.0.1", "::1",
                   host_of(address.is_v6() ? "[" + o.host + "]" : o.host)};
  for (const std::string& name : what.allow_hosts) o.rules.hosts.push_back(host_of(name));
  return o;
}

pipeline::gate_wish wish_of(const gate_command& what) {
  pipeline::gate_wish wish;
  wish.limits_asked_for = !what.limits.empty();
  if (wish.limits_asked_for) wish.limits.clear();
  for (const std::string& text : what.limits) {
    try {
      if (text != "none") wish.limits.push_back(pipeline::parse_limit(text));
    } catch (const std::invalid_argument& e) {
      throw settings_error(exit_codes::usage, std::string("--limit: ") + e.what());
    }
  }
  wish.max_in_flight = what.max_in_flight;
  wish.warn = [](const std::string& text) { std::cerr << "sluice: " << text << std::endl; };
  return wish;
}

std::optional<upstream_options> upstream_of(const gate_command& what) {
  if (what.upstream.empty()) return std::nullopt;
  upstream_options o;
  const char* option = "--upstream: ";
  try {
    o.url = provider::parse_base_url(what.upstream);
    option = "--proxy: ";
    o.via = provider::proxy_for(o.url, what.proxy, [](const char* name) {
      const char* value = std::getenv(name);
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    });
    option = "--admission-timeout: ";
    o.admission_timeout = pipeline::parse_duration_option(what.admission_timeout);
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, option + std::string(e.what()));
  }
  o.files.ca = what.ca_file;
  return o;
}

std::unique_ptr<upstream> make_upstream(asio::io_context& context, pipeline::clock& time,
                                        pipeline::gate_keeper& keeper,
                                        const std::optional<upstream_options>& how) {
  if (!how) return nullptr;
  try {
    return std::make_unique<upstream>(context.get_executor(), time, keeper, *how);
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, e.what());
  }
}

}  // namespace

int serve_gate(const gate_command& what) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptors();
  const listener_options how = options_of(what);
  const pipeline::gate_wish wish = wish_of(what);
  const std::optional<upstream_options> passing = upstream_of(what);
  const auto medium = pipeline::open_budget_file(what.state);
  if (!medium->try_lock())
    throw pipeline::store_error(retry::exit_code::come_back_later,
                                "state " + what.state + ": is in use by " + medium->holder() +
                                    "; stop that, or name another file with --state");

  asio::io_context context(1);
  pipeline::real_clock time(context.get_executor());
  state_file store(context.get_executor(), time, *medium);
  pipeline::gate_keeper keeper(time, load_gate_state(*medium, wish, time.now()), store);
  routes answers(time, keeper);
  const std::unique_ptr<upstream> calls = make_upstream(context, time, keeper, passing);
  listener door(context, how, answers, calls.get());
  asio::signal_set signals(context, SIGINT, SIGTERM);
  const auto close = [&] {
    keeper.stop();
    door.stop();
    if (calls) calls->stop();
    boost::system::error_code ignored;
    signals.cancel(ignored);
  };
  signals.async_wait([&](boost::system::error_code ec, int) {
    if (!ec) close();
  });
  std::exception_ptr trouble;
  asio::co_spawn(context, keeper.run(), [&](std::exception_ptr e) {
    trouble = e;
    close();
  });
  std::cout << "listening on " << door.url() << std::endl;
  context.run();
  if (trouble) std::rethrow_exception(trouble);
  return exit_codes::success;
}

}  // namespace sluice::app
