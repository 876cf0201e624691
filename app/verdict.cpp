#include "app/verdict.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "app/exit_codes.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

std::string counted(std::uint64_t n, const char* what) {
  return fmt::format("{} {}", n, what);
}

// A cause that passes by itself at a time that can be told.
std::string come_back(const pipeline::stop_cause& cause) {
  if (!cause.come_back) return "";
  const std::time_t when =
      std::time(nullptr) + std::chrono::ceil<std::chrono::seconds>(*cause.come_back).count();
  std::tm local{};
  if (::localtime_r(&when, &local) == nullptr) return "";
  return fmt::format("; come back at {:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace

std::string verdict_sentence(const pipeline::batch_result& r, int exit) {
  if (r.documents == 0 && exit == exit_codes::success)
    return "The batch is empty: there was nothing to do.";
  if (r.skipped == r.documents && exit == exit_codes::success)
    return fmt::format(
        "Nothing is left to do: all {} documents have succeeded already (--again does them anew).",
        r.documents);
  std::string text;
  if (r.succeeded == r.documents && exit == exit_codes::success) {
    text = r.documents == 1 ? "The one document succeeded"
                            : fmt::format("All {} documents succeeded", r.documents);
  } else {
    text = fmt::format("{} of {} documents succeeded", r.succeeded, r.documents);
    std::vector<std::string> rest;
    if (r.failed > 0) rest.push_back(counted(r.failed, "failed"));
    if (r.deferred > 0) rest.push_back(counted(r.deferred, "deferred"));
    if (r.mismatched > 0) rest.push_back(counted(r.mismatched, "mismatched"));
    if (!rest.empty()) text += fmt::format(", {}", fmt::join(rest, ", "));
  }
  text += fmt::format("; {} calls, {} refused", r.calls, r.refused);
  if (r.skipped > 0) text += fmt::format(", {} skipped as finished before", r.skipped);
  if (r.stopped) {
    text += fmt::format(". The run stopped: {}", retry::name(r.stopped->why));
    if (!r.stopped->detail.empty()) text += fmt::format(" ({})", r.stopped->detail);
    text += come_back(*r.stopped);
  }
  return text + ".";
}

std::vector<std::string> remedies(const pipeline::batch_result& result) {
  std::vector<std::string> lines;
  for (const auto& [why, count] : result.by_reason) {
    const std::string_view remedy = retry::row_of(why).remedy;
    if (!remedy.empty()) lines.push_back(fmt::format("{} {}: {}", count, retry::name(why), remedy));
  }
  return lines;
}

}  // namespace sluice::app
