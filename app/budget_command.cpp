#include "app/budget_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "app/exit_codes.hpp"
#include "app/output_file.hpp"
#include "pipeline/admission/budget_file.hpp"
#include "pipeline/real_clock.hpp"

namespace sluice::app {
namespace {

struct limit_use {
  pipeline::limit what;
  std::int64_t used = 0;
};

// A budget at one moment.
struct shown_budget {
  pipeline::budget_view seen;
  instant now;
  std::vector<limit_use> uses;
  duration cool_down{};
  duration next_turn{};
};

shown_budget look_at(const std::string& file) {
  boost::asio::io_context context(1);
  const pipeline::real_clock time(context.get_executor());
  shown_budget b;
  b.seen = pipeline::describe_budget(file);
  b.now = time.now();
  pipeline::budget_state& state = b.seen.state;
  if (!b.seen.of_this_boot) state = pipeline::used_up_budget(state.settings, state.boot_id, b.now);
  const pipeline::ring_state& record = state.record;
  for (std::size_t i = 0; i < record.tracks.size(); ++i) {
    limit_use use{state.settings.limits[i], 0};
    for (const auto& e : record.tracks[i].entries)
      if (e.at + use.what.window + record.tracks[i].guard > b.now) use.used += e.cost;
    b.uses.push_back(use);
  }
  b.cool_down = std::max(duration::zero(), std::max(record.not_before, b.now) - b.now);
  const pipeline::budget_line line(state);
  const auto next = line.outlook().forecast(b.now, pipeline::call_cost());
  b.next_turn = next.value_or(b.now) - b.now;
  return b;
}

std::string as_json(const shown_budget& b, const std::string& file) {
  const pipeline::budget_state& state = b.seen.state;
  nlohmann::ordered_json j;
  j["budget"] = file;
  j["limits"] = nlohmann::json::array();
  for (const limit_use& u : b.uses) {
    nlohmann::ordered_json l;
    l["limit"] = to_string(u.what);
    l["used"] = u.used;
    l["left"] = std::max<std::int64_t>(0, u.what.amount - u.used);
    j["limits"].push_back(std::move(l));
  }
  j["max_in_flight"] = state.settings.max_in_flight;
  j["granted"] = state.record.granted;
  j["cool_down_seconds"] = to_seconds(b.cool_down);
  j["next_turn_seconds"] = to_seconds(b.next_turn);
  j["of_this_boot"] = b.seen.of_this_boot;
  j["planned"] = nlohmann::json::array();
  for (const auto& p : state.line) {
    nlohmann::ordered_json turn;
    turn["process"] = p.process;
    turn["job"] = p.job;
    turn["in_seconds"] = to_seconds(p.at - b.now);
    j["planned"].push_back(std::move(turn));
  }
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string in_words(const shown_budget& b, const std::string& file) {
  const pipeline::budget_state& state = b.seen.state;
  std::string text = fmt::format("budget    {}\n", file);
  for (const limit_use& u : b.uses)
    text += fmt::format("limit     {}: {} used, {} left\n", to_string(u.what), u.used,
                        std::max<std::int64_t>(0, u.what.amount - u.used));
  if (state.settings.limits.empty()) text += "limit     none\n";
  if (state.settings.max_in_flight > 0)
    text += fmt::format("in flight at most {} over all jobs\n", state.settings.max_in_flight);
  if (b.cool_down > duration::zero())
    text += fmt::format("cool-down {:.1f} s left\n", to_seconds(b.cool_down));
  text += fmt::format("next turn in {:.1f} s, behind {} planned\n", to_seconds(b.next_turn),
                      state.line.size());
  for (const auto& p : state.line)
    text += fmt::format("planned   process {} in {:.1f} s\n", p.process, to_seconds(p.at - b.now));
  if (!b.seen.of_this_boot)
    text += "The machine was started anew since: the limit counts as just used up.\n";
  return text;
}

}  // namespace

int budget_init(const budget_init_command& what) {
  pipeline::budget_settings made;
  for (const std::string& text : what.limits) {
    try {
      if (text != "none") made.limits.push_back(pipeline::parse_limit(text));
    } catch (const std::invalid_argument& e) {
      throw settings_error(exit_codes::usage, std::string("--limit: ") + e.what());
    }
  }
  made.max_in_flight = what.max_in_flight;
  pipeline::init_budget(what.file, made);
  return exit_codes::success;
}

int budget_show(const budget_show_command& what) {
  const shown_budget b = look_at(what.file);
  output_file out("");
  out.write(what.json ? as_json(b, what.file) : in_words(b, what.file));
  out.commit();
  return exit_codes::success;
}

std::shared_ptr<pipeline::shared_budget> share_budget(
    settings& s, const std::string& job, std::function<void(const std::string&)> warn) {
  if (s.budget.empty()) return nullptr;
  std::random_device entropy;
  pipeline::sharing how;
  how.process = static_cast<std::uint32_t>(::getpid());
  how.client = (std::uint64_t{how.process} << 32U) | entropy();
  how.job = job;
  how.shape = s.pace;
  how.admission_timeout = s.admission_timeout;
  how.limits = s.limits;
  how.limits_asked_for = s.limit_given;
  how.warn = std::move(warn);
  auto shared = std::make_shared<pipeline::shared_budget>(pipeline::open_budget_file(s.budget),
                                                          std::move(how));
  s.limits = shared->settings().limits;
  return shared;
}

}  // namespace sluice::app
