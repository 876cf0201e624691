// What the end-to-end tests share: the program under test, run in a scratch folder of its own, and
// what it leaves behind, read as a script would.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::testing {

using arguments = std::vector<std::string>;

inline void PrintTo(const process_end& e, std::ostream* to) {
  *to << "exit " << e.exit << ", signal " << e.signal << (e.overdue ? ", overdue" : "")
      << "\nstdout:\n"
      << e.out << "\nstderr:\n"
      << e.err;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// As grep -c: the number of lines that hold the text.
inline std::size_t lines_with(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (const std::string& line : lines_of(text))
    if (line.find(part) != std::string::npos) ++n;
  return n;
}

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> result;
  for (const std::string& line : lines_of(text)) result.push_back(nlohmann::json::parse(line));
  return result;
}

/// JSONL of documents D0, D1, ... with texts of their own.
inline std::string numbered_documents(unsigned n, const std::string& prefix = "d") {
  std::string text;
  for (unsigned i = 0; i < n; ++i) {
    const std::string id = prefix + std::to_string(i);
    text += R"({"id": ")" + id + R"(", "text": "This is document )" + id +
            R"(."})"
            "\n";
  }
  return text;
}

/// A fake endpoint that answers at once, without a limit.
inline fixtures::fake_options unlimited() {
  fixtures::fake_options o;
  o.limit.reset();
  return o;
}

inline nlohmann::json stats(const fixtures::fake_endpoint& of) {
  return nlohmann::json::parse(of.stats_json());
}
inline nlohmann::json grade(const fixtures::fake_endpoint& of) {
  return nlohmann::json::parse(of.grade_json());
}
inline unsigned calls(const fixtures::fake_endpoint& to) {
  return stats(to)["calls"].get<unsigned>();
}

/// One user's folder and shell: everything that a test starts there shares folder and variables.
struct desk {
  scratch_folder folder;
  std::map<std::string, std::string> environment;

  desk() = default;
  /// At work with this endpoint, without a limit of its own.
  explicit desk(const fixtures::fake_endpoint& with) {
    environment = {
        {"SLUICE_ENDPOINT", with.url()}, {"SLUICE_MODEL", "fake-model"}, {"SLUICE_LIMIT", "none"}};
  }

  process_options prepare(arguments words) const {
    process_options o;
    o.program = SLUICE_PROGRAM;
    o.arguments = std::move(words);
    o.environment = environment;
    o.folder = folder.at("");
    return o;
  }
  process_end sluice(arguments words) const { return run_process(prepare(std::move(words))); }
  process_end sluice_reading(const std::string& input, arguments words) const {
    process_options o = prepare(std::move(words));
    o.input = input;
    return run_process(o);
  }

  nlohmann::json status(arguments more = {}) const {
    more.insert(more.begin(), {"status", "--json"});
    return nlohmann::json::parse(sluice(std::move(more)).out);
  }
  std::vector<nlohmann::json> results(arguments more = {}) const {
    more.insert(more.begin(), "results");
    return json_lines(sluice(std::move(more)).out);
  }
  /// The latest outcome's field of a document; null when there is none.
  nlohmann::json result_of(const std::string& id, const std::string& field = "outcome") const {
    for (const nlohmann::json& row : results())
      if (row["id"] == id) return row[field];
    return nullptr;
  }
};

}  // namespace sluice::testing
