// What the coroutine lint must flag (lines that end in "// bad") and what it must leave alone. Read
// by scripts/lint/coroutines, never compiled into anything: g++ 12 destroys the flagged temporaries
// twice, because it forgets that the suspended expression owns them.
#include <coroutine>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace {

// The least a coroutine needs.
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  bool await_ready() const { return true; }
  void await_suspend(std::coroutine_handle<>) const {}
  int await_resume() const { return 0; }
};

struct order {
  std::string id;
  int cost = 1;
};

// As an order, but with a constructor of its own, which is what makes it safe.
struct ticket {
  explicit ticket(std::string name) : id(std::move(name)) {}
  std::string id;
};

struct numbers {
  int first = 0;
  int second = 0;
};

task by_value(order) { return {}; }
task by_reference(const order&) { return {}; }
task by_ticket(ticket) { return {}; }
task by_numbers(numbers) { return {}; }
task by_text(std::string) { return {}; }
int cost_of(const order& o) { return o.cost; }
task by_cost(int) { return {}; }
order make_order() { return {"made", 1}; }
template <class Callable>
task run(Callable callable) {
  (void)callable;
  return {};
}
template <class Callable>
void start(int, Callable callable) {
  (void)callable;
}

task flagged(std::string name) {
  co_await by_value(order{"a", 1});        // bad
  co_await by_value({"b", 2});             // bad
  co_await by_value({.id = "c"});          // bad
  co_await by_reference(order{"d", 1});    // bad
  co_await by_cost(cost_of(order{"e"}));   // bad
  co_await run([name] { return name; });   // bad
  start(co_await task(), [name] {});       // bad
  const int n = co_await by_value({"f"});  // bad
  if (co_await by_value({"g"})) co_return; // bad
  co_await run([kept = std::move(name)]() -> task {  // bad
    co_await task();
  });
  (void)n;
}

task left_alone(std::string name) {
  order named{"a", 1};
  co_await by_value(std::move(named));
  co_await by_value(make_order());
  co_await by_ticket(ticket("b"));
  co_await by_numbers({1, 2});
  co_await by_text("c");
  co_await run([&name] { return name; });
  co_await run([] {});
  auto keeper = [name] { return name; };
  co_await run(std::move(keeper));
  // The lambda's own body suspends, the expression it stands in does not.
  start(1, [name]() -> task {
    co_await by_text(name);
    co_await by_numbers({3, 4});
  });
  by_value(order{"d", 1});
  const std::vector<order> several{{"e", 1}, {"f", 2}};
  co_await by_cost(static_cast<int>(several.size()));
}

}  // namespace

int main() {
  flagged("x");
  left_alone("y");
}
