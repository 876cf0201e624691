#include "retry/outcome.hpp"

#include <array>
#include <utility>

namespace sluice::retry {
namespace {

constexpr std::array outcomes{
    std::pair{outcome::succeeded, std::string_view("succeeded")},
    std::pair{outcome::failed, std::string_view("failed")},
    std::pair{outcome::deferred, std::string_view("deferred")},
    std::pair{outcome::mismatched, std::string_view("mismatched")},
};

constexpr std::array classes{
    std::pair{outcome_class::none, std::string_view("none")},
    std::pair{outcome_class::permanent, std::string_view("permanent")},
    std::pair{outcome_class::transient, std::string_view("transient")},
};

template <class Table, class Key>
std::string_view name_in(const Table& table, Key key) {
  for (const auto& [k, text] : table)
    if (k == key) return text;
  return "unknown";
}

template <class Key, class Table>
std::optional<Key> key_in(const Table& table, std::string_view text) {
  for (const auto& [k, t] : table)
    if (t == text) return k;
  return std::nullopt;
}

}  // namespace

std::string_view name(outcome o) {
  return name_in(outcomes, o);
}
std::string_view name(outcome_class c) {
  return name_in(classes, c);
}
std::optional<outcome> outcome_named(std::string_view text) {
  return key_in<outcome>(outcomes, text);
}
std::optional<outcome_class> outcome_class_named(std::string_view text) {
  return key_in<outcome_class>(classes, text);
}

}  // namespace sluice::retry
