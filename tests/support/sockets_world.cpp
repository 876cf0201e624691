#include "tests/support/sockets_world.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>

#include "fixtures/simulation/sim_clock.hpp"
#include "provider/request_template.hpp"

namespace sluice::testing {
namespace {

namespace asio = boost::asio;

// Tells when a call is under way: simulated time stands still then.
class watched_endpoint final : public provider::endpoint {
 public:
  explicit watched_endpoint(provider::http_endpoint& real) : real_(real) {}

  asio::awaitable<provider::readiness> make_ready() override {
    const under_way now(*this);
    co_return co_await real_.make_ready();
  }
  bool alive(provider::connection& c) override { return real_.alive(c); }
  asio::awaitable<provider::attempt_report> send(provider::slot turn,
                                                 std::unique_ptr<provider::connection> on,
                                                 const provider::call& what) override {
    const under_way now(*this);
    co_return co_await real_.send(std::move(turn), std::move(on), what);
  }
  void abort() override { real_.abort(); }
  bool busy() const { return calls_ > 0; }

 private:
  struct under_way {
    explicit under_way(watched_endpoint& e) : of(e) { ++of.calls_; }
    ~under_way() { --of.calls_; }
    under_way(const under_way&) = delete;
    under_way& operator=(const under_way&) = delete;
    watched_endpoint& of;
  };
  provider::http_endpoint& real_;
  int calls_ = 0;
};

class listed final : public pipeline::document_source {
 public:
  explicit listed(const std::vector<std::pair<std::string, std::string>>& all) : all_(all) {}
  asio::awaitable<std::optional<pipeline::source_item>> next() override {
    if (given_ == all_.size()) co_return std::nullopt;
    pipeline::document d;
    d.id = all_[given_].first;
    d.text = all_[given_++].second;
    pipeline::source_item item(std::move(d));
    co_return std::optional<pipeline::source_item>(std::move(item));
  }

 private:
  const std::vector<std::pair<std::string, std::string>>& all_;
  std::size_t given_ = 0;
};

class notes final : public pipeline::recorder, public pipeline::observer {
 public:
  explicit notes(socket_run& into) : into_(into) {}
  void attempt(pipeline::attempt_record) override {}
  asio::awaitable<void> outcome(pipeline::outcome_record r) override {
    into_.outcomes.push_back(std::move(r));
    co_return;
  }
  void attempt_ended(const pipeline::attempt_record& r, const retry::decision& d) override {
    into_.attempts.emplace_back(r, d);
  }

 private:
  socket_run& into_;
};

}  // namespace

socket_run run_over_sockets(const socket_setup& setup) {
  socket_run out;
  asio::io_context context(1);
  fixtures::sim_clock time(context);
  provider::http_options http = setup.http;
  http.now = [&time] { return time.now(); };
  provider::http_endpoint real(context.get_executor(), http);
  watched_endpoint watched(real);
  listed source(setup.documents);
  notes into(out);
  provider::request_options asked;
  asked.model = "fake-model";
  const provider::request_template request(asked);
  pipeline::document_view view;
  view.render = [&](const pipeline::document& d) {
    return request.render(d.id, d.text, d.messages);
  };
  view.tokens = [&](const std::string& body) { return request.estimate_tokens(body); };
  pipeline::batch batch(context.get_executor(), time, watched, source, nullptr, into, into, view,
                        setup.batch);
  const instant began = time.now();
  bool over = false;
  std::exception_ptr trouble;
  asio::co_spawn(context, batch.run(), [&](std::exception_ptr e, const pipeline::batch_result&) {
    trouble = e;
    over = true;
  });
  time.run_until([&] { return over; }, std::chrono::hours(48), [&] { return watched.busy(); });
  if (trouble) std::rethrow_exception(trouble);
  out.result = batch.so_far();
  out.elapsed = time.now() - began;
  return out;
}

}  // namespace sluice::testing
