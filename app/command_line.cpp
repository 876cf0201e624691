#include "app/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>

#include "app/exit_codes.hpp"
#include "fixtures/scenario.hpp"

namespace sluice::app {
namespace {

// Where CLI11 puts the texts of the shared options, and the option that tells whether they came.
struct collected {
  struct entry {
    const option* what;
    CLI::Option* seen;
    std::unique_ptr<std::vector<std::string>> many;
    std::unique_ptr<std::string> one;
  };
  std::vector<entry> entries;
  std::string config;

  option_texts texts() const {
    option_texts result;
    for (const entry& e : entries) {
      if (e.seen->count() == 0) continue;
      result[e.what->name] = e.what->repeats ? *e.many : std::vector<std::string>{*e.one};
    }
    return result;
  }
};

void add_options(CLI::App& to, collected& into, const std::vector<std::string_view>& only = {}) {
  for (const option& o : options()) {
    if (!only.empty() && std::find(only.begin(), only.end(), o.name) == only.end()) continue;
    collected::entry e{&o, nullptr, std::make_unique<std::vector<std::string>>(),
                       std::make_unique<std::string>()};
    const std::string name = std::string("--") + o.name;
    if (o.flag)
      e.seen = to.add_flag(name + "{true}", *e.one, o.help);
    else if (o.repeats)
      e.seen = to.add_option(name, *e.many, o.help)->allow_extra_args(false)->take_all();
    else
      e.seen = to.add_option(name, *e.one, o.help)->take_last();
    into.entries.push_back(std::move(e));
  }
  to.add_option("--config", into.config, "TOML file with any of these options as keys")
      ->take_last();
}

// Default, then file, then variable; the caller puts the flags on top.
settings below_the_flags(const collected& from) {
  settings result;
  std::string config = from.config;
  if (config.empty())
    if (const char* named = std::getenv("SLUICE_CONFIG")) config = named;
  constexpr int code = retry::exit_code::configuration;
  if (!config.empty()) apply(result, read_config_file(config), "config file " + config, code);
  apply(result, read_environment(), "environment", code);
  return result;
}

settings with_flags(const collected& from) {
  settings result = below_the_flags(from);
  apply(result, from.texts(), "command line", exit_codes::usage);
  return result;
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::vector<std::string> read_ids(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw settings_error(exit_codes::unreadable_input,
                         "--ids-from " + path + ": cannot be read; check the path");
  std::vector<std::string> ids;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) ids.push_back(line);
  }
  if (in.bad() || std::filesystem::is_directory(path))
    throw settings_error(exit_codes::unreadable_input,
                         "--ids-from " + path + ": cannot be read; name a file");
  return ids;
}

template <class Parse>
auto flag_value(const char* flag, Parse parse) {
  try {
    return parse();
  } catch (const std::invalid_argument& e) {
    throw settings_error(exit_codes::usage, std::string(flag) + ": " + e.what());
  }
}

std::pair<std::string, std::uint16_t> parse_listen(const std::string& listen) {
  const auto colon = listen.rfind(':');
  if (colon == std::string::npos)
    throw settings_error(exit_codes::usage,
                         "--listen " + listen + ": no port; say for example 127.0.0.1:8787");
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const std::string port = listen.substr(colon + 1);
  unsigned long number = 65536;
  if (!port.empty() && port.size() < 6 && port.find_first_not_of("0123456789") == port.npos)
    number = std::stoul(port);
  if (number > 65535)
    throw settings_error(exit_codes::usage,
                         "--listen " + listen + ": the port is not a number from 0 to 65535");
  return {std::move(host), static_cast<std::uint16_t>(number)};
}

// The texts of fake-endpoint's own options.
struct fake_texts {
  std::string listen = "127.0.0.1:8787";
  std::string limit = "10/60s";
  std::string window = "rolling";
  bool count_refused = false;
  std::string latency = "100ms-300ms";
  unsigned first_429 = 0;
  std::string scenario;
  std::string replay;
  std::string tls;
  std::string tls_ca;
  std::uint64_t seed = 1;

  void add_to(CLI::App& sub) {
    sub.add_option("--listen", listen, "Address and port; port 0 takes any free one")
        ->capture_default_str();
    sub.add_option("--limit", limit, "Calls let through, or none")->capture_default_str();
    sub.add_option("--window", window, "rolling, fixed, bucket or strict")
        ->check(CLI::IsMember({"rolling", "fixed", "bucket", "strict"}))
        ->capture_default_str();
    sub.add_flag("--count-refused", count_refused, "Refused calls use the limit up as well");
    sub.add_option("--latency", latency, "How long answers take, e.g. 100ms-300ms or 0ms")
        ->capture_default_str();
    sub.add_option("--first-429", first_429, "Refuse the first N calls");
    sub.add_option("--scenario", scenario, "JSON file of scripted answers");
    sub.add_option("--tls", tls,
                   "Speak TLS: good, or with the fault expired, not_yet_valid, self_signed, "
                   "wrong_host or old_protocol; else as the scenario says");
    sub.add_option("--tls-ca", tls_ca, "File to write the certificate of the CA to, for clients");
    sub.add_option("--replay", replay, "Serve the answers that `run --record` kept, and no others");
    sub.add_option("--seed", seed, "Seed of latencies and scenarios")->capture_default_str();
  }

  fixtures::fake_options parsed() const {
    fixtures::fake_options result;
    std::tie(result.host, result.port) = parse_listen(listen);
    result.limit.reset();
    if (limit != "none") {
      const pipeline::limit l =
          flag_value("--limit", [this] { return pipeline::parse_limit(limit); });
      if (l.unit != pipeline::limit_unit::requests)
        throw settings_error(exit_codes::usage,
                             "--limit " + limit + ": the fake endpoint counts calls, not tokens");
      fixtures::server_limit enforced;
      enforced.calls = static_cast<std::size_t>(l.amount);
      enforced.window = l.window;
      enforced.count_refused = count_refused;
      if (window == "fixed") enforced.kind = fixtures::window_kind::fixed;
      if (window == "bucket") enforced.kind = fixtures::window_kind::bucket;
      if (window == "strict") enforced.kind = fixtures::window_kind::strict;
      result.limit = enforced;
    }
    const auto dash = latency.find('-');
    const auto time_of = [](const std::string& text) {
      return flag_value("--latency", [&] { return pipeline::parse_duration_option(text); });
    };
    result.latency_min = time_of(latency.substr(0, dash));
    result.latency_max =
        dash == std::string::npos ? result.latency_min : time_of(latency.substr(dash + 1));
    if (result.latency_max < result.latency_min)
      throw settings_error(exit_codes::usage,
                           "--latency " + latency + ": the longer time stands first");
    result.first_429 = first_429;
    result.seed = seed;
    std::string tls_name = tls;
    try {
      if (!scenario.empty()) {
        result.script = fixtures::load_scenario(scenario, seed);
        if (tls.empty()) tls_name = fixtures::scenario_tls(scenario);
      }
      if (!replay.empty())
        result.recorded = std::make_shared<const fixtures::replay>(fixtures::replay::load(replay));
    } catch (const std::invalid_argument& e) {
      throw settings_error(retry::exit_code::configuration, e.what());
    }
    if (!tls_name.empty()) {
      const auto fault = fixtures::tls_fault_named(tls_name);
      if (!fault)
        throw settings_error(exit_codes::usage,
                             "--tls " + tls_name +
                                 ": say good, expired, not_yet_valid, self_signed, wrong_host or "
                                 "old_protocol");
      result.tls = fixtures::fake_tls{*fault, tls_ca};
    }
    return result;
  }
};

// The texts of gate's own options.
struct gate_texts {
  std::string listen = "127.0.0.1:8788";
  std::uint32_t max_in_flight = 0;
  CLI::Option* max_given = nullptr;
  gate_command with;

  void add_to(CLI::App& sub) {
    sub.add_option("--listen", listen, "Address and port; port 0 takes any free one")
        ->capture_default_str();
    sub.add_option("--limit", with.limits, "Rate limit, e.g. 10/60s or none; repeats")
        ->allow_extra_args(false)
        ->take_all();
    max_given = sub.add_option("--max-in-flight", max_in_flight, "Calls under way over all jobs")
                    ->check(CLI::Range(0U, 10000U));
    sub.add_option("--state", with.state, "File that grants are written down in, on a local disk")
        ->capture_default_str();
    sub.add_option("--token-file", with.token_file, "File with the token asked of all, mode 0600");
    sub.add_option("--tls-cert", with.tls_cert, "Certificate chain (PEM): speak HTTPS");
    sub.add_option("--tls-key", with.tls_key, "The certificate's key (PEM)");
    sub.add_option("--allow-host", with.allow_hosts, "Another name the gate is called by; repeats")
        ->allow_extra_args(false)
        ->take_all();
    auto* const to = sub.add_option("--upstream", with.upstream,
                                    "Base URL of the endpoint: pass chat completions on to it");
    sub.add_option("--admission-timeout", with.admission_timeout,
                   "Give up on a call passed on whose turn would come later than this")
        ->capture_default_str()
        ->needs(to);
    sub.add_option("--proxy", with.proxy, "On the way there: http://HOST:PORT, or none")->needs(to);
    sub.add_option("--ca-file", with.ca_file, "Certificates to trust there besides the system's")
        ->needs(to);
  }

  gate_command parsed() const {
    gate_command result = with;
    std::tie(result.host, result.port) = parse_listen(listen);
    if (max_given->count() > 0) result.max_in_flight = max_in_flight;
    return result;
  }
};

}  // namespace

command parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Sluice: one recorded outcome per document, under a rate limit.", "sluice");
  app.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 all succeeded, 3 some failed, 4 some differ, 64 usage, 65 input,\n"
      "69 endpoint down, 74 disk, 75 come back later, 77 key or bill, 78 configuration.");

  collected shared;
  std::vector<std::string> inputs;
  CLI::App* const run = app.add_subcommand("run", "Analyse a batch, or go on with it");
  run->add_option(
         "documents", inputs,
         "Text files, folders of .txt and .md, .jsonl files, or - for JSONL on standard input")
      ->required();
  add_options(*run, shared);

  collected for_rerun;
  std::string rerun_of;
  bool failed_only = false;
  std::vector<std::string> ids;
  std::string ids_from;
  CLI::App* const rerun =
      app.add_subcommand("rerun", "Take up what failed or was deferred, or the documents named");
  rerun->add_option("run", rerun_of, "The run to repeat from; else the last");
  auto* const opt_failed = rerun->add_flag("--failed", failed_only, "Only what failed");
  auto* const opt_ids = rerun->add_option("--ids", ids, "These documents, separated by commas")
                            ->delimiter(',')
                            ->allow_extra_args(false);
  auto* const opt_from = rerun->add_option("--ids-from", ids_from, "File with one ID on each line");
  opt_failed->excludes(opt_ids)->excludes(opt_from);
  opt_ids->excludes(opt_from);
  add_options(*rerun, for_rerun);

  collected for_status;
  std::string status_of;
  CLI::App* const status = app.add_subcommand("status", "What the store, or one run, came to");
  status->add_option("run", status_of, "A run's ID, or last; else the whole store");
  std::string since;
  auto* const opt_since = status->add_option(
      "--since", since, "Add up the runs of that time, e.g. 7d, and say what to change");
  opt_since->excludes(status->get_option("run"));
  add_options(*status, for_status, {"store", "json"});

  collected for_results;
  std::string results_of;
  std::string format = "jsonl";
  std::string output;
  CLI::App* const results = app.add_subcommand("results", "Every document's outcome and answer");
  results->add_option("run", results_of, "A run's ID, or last; else the whole store");
  results->add_option("--format", format, "jsonl")->check(CLI::IsMember({"jsonl"}));
  results->add_option("-o,--output", output, "File to write, complete or not at all");
  add_options(*results, for_results, {"store"});

  fake_texts fake_options;
  CLI::App* const fake = app.add_subcommand(
      "fake-endpoint", "Serve an endpoint that costs nothing and judges its client");
  fake_options.add_to(*fake);

  CLI::App* const budget = app.add_subcommand("budget", "A rate limit that several jobs share");
  budget->require_subcommand(1);
  budget_init_command making;
  CLI::App* const init = budget->add_subcommand(
      "init", "Make a budget anew, for a key by which nothing was sent within the limit's window");
  init->add_option("file", making.file, "The budget's file, on a local disk")->required();
  init->add_option("--limit", making.limits, "Rate limit, e.g. 10/60s or none; repeats")
      ->required()
      ->allow_extra_args(false)
      ->take_all();
  init->add_option("--max-in-flight", making.max_in_flight, "Calls under way over all jobs")
      ->check(CLI::Range(1U, 10000U));
  budget_show_command showing;
  CLI::App* const show = budget->add_subcommand("show", "What is used and who is next");
  show->add_option("file", showing.file, "The budget's file")->required();
  show->add_flag("--json", showing.json, "One JSON object");

  gate_texts gate_options;
  CLI::App* const gate =
      app.add_subcommand("gate", "Hold a rate limit's budget for jobs that share no disk");
  gate_options.add_to(*gate);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    std::ostringstream err;
    if (app.exit(e, out, err) == 0) return said{out.str()};
    std::string text = e.what();
    const bool named = argc > 1 && argv[1][0] != '-';
    if (named && app.get_subcommands().empty())
      text = std::string("unknown command '") + argv[1] + "'";
    while (!text.empty() && text.back() == '\n') text.pop_back();
    throw settings_error(exit_codes::usage, text + "; `sluice --help` shows what there is");
  }

  if (run->parsed()) return run_command{with_flags(shared), std::move(inputs)};
  if (rerun->parsed()) {
    rerun_command c;
    c.base = below_the_flags(for_rerun);
    c.flags = for_rerun.texts();
    c.run = unless_empty(rerun_of);
    c.failed_only = failed_only;
    if (opt_ids->count() > 0) c.ids = std::move(ids);
    if (opt_from->count() > 0) c.ids = read_ids(ids_from);
    return c;
  }
  if (status->parsed()) {
    status_command c{with_flags(for_status), unless_empty(status_of), std::nullopt};
    if (opt_since->count() > 0)
      c.since = flag_value("--since", [&] { return pipeline::parse_duration_option(since); });
    return c;
  }
  if (results->parsed())
    return results_command{with_flags(for_results), unless_empty(results_of), std::move(output)};
  if (init->parsed()) return making;
  if (show->parsed()) return showing;
  if (gate->parsed()) return gate_options.parsed();
  return fake_command{fake_options.parsed()};
}

}  // namespace sluice::app
