#include "app/gate/page.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

namespace sluice::app {
namespace {

constexpr std::size_t most_jobs = 100;
// Of the chart, in the units of its view box.
constexpr int bar = 10;
constexpr int height = 120;

constexpr std::string_view style = R"(
:root{color-scheme:light dark;--calls:#2f6fb3;--refused:#c8421f;--rule:#8886}
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid var(--rule)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td{overflow-wrap:anywhere}
meter{width:10rem}
svg{display:block;width:100%;height:auto;border-bottom:1px solid var(--rule)}
.calls{fill:var(--calls)}.refused{fill:var(--refused)}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
.key.calls{background:var(--calls)}.key.refused{background:var(--refused)}
.alert{color:var(--refused);font-weight:600}
p{margin:.4rem 0}
)";

std::string hash_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> coded{};
  const int n = EVP_EncodeBlock(coded.data(), digest.data(), static_cast<int>(size));
  return {coded.begin(), coded.begin() + n};
}

std::string seconds(duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

void state(std::string& to, const page_figures& f) {
  if (f.cool_down > duration::zero())
    to += fmt::format(
        "<p class=\"alert\" id=\"cool-down\">Cooling down: nobody is admitted for {}.</p>\n",
        seconds(f.cool_down));
  else
    to += "<p id=\"cool-down\">No cool-down.</p>\n";
  to += fmt::format("<p>Calls in flight: <b id=\"in-flight\">{}</b>{}</p>\n", f.in_flight,
                    f.max_in_flight == 0 ? "" : fmt::format(" of {}", f.max_in_flight));
}

void budget(std::string& to, const page_figures& f) {
  to += "<h2>Budget used in the current window</h2>\n";
  if (f.limits.empty()) {
    to += "<p>There is no limit.</p>\n";
    return;
  }
  to += "<table id=\"budget\"><tr><th>Limit</th><th class=\"n\">Used</th><th></th></tr>\n";
  for (const auto& l : f.limits)
    to += fmt::format(
        "<tr><td>{0}</td><td class=\"n\">{1} of {2}</td>"
        "<td><meter min=\"0\" max=\"{2}\" value=\"{3}\"></meter></td></tr>\n",
        escaped(l.limit), l.used, l.allowed, std::clamp<std::int64_t>(l.used, 0, l.allowed));
  to += "</table>\n";
}

void line(std::string& to, const page_figures& f) {
  to += "<h2>Line</h2>\n";
  if (f.line.empty()) {
    to += "<p>Nobody is waiting.</p>\n";
    return;
  }
  to += "<table id=\"line\"><tr><th>Job</th><th class=\"n\">Calls waiting</th></tr>\n";
  // A name may hold marks that turn the direction of what follows; it stays in its own cell.
  for (std::size_t i = 0; i < std::min(f.line.size(), most_jobs); ++i)
    to += fmt::format("<tr><td><bdi>{}</bdi></td><td class=\"n\">{}</td></tr>\n",
                      escaped(f.line[i].first), f.line[i].second);
  if (f.line.size() > most_jobs)
    to += fmt::format("<tr><td>and {} jobs more</td><td></td></tr>\n", f.line.size() - most_jobs);
  to += "</table>\n";
}

void chart(std::string& to, const page_figures& f) {
  std::uint64_t calls = 0;
  std::uint64_t refused = 0;
  std::uint32_t most = 1;
  for (const auto& m : f.hour) {
    calls += m.calls;
    refused += m.rate_limited;
    most = std::max({most, m.calls, m.rate_limited});
  }
  to += fmt::format(
      "<h2>The last hour</h2>\n"
      "<p><span class=\"key calls\"></span><b id=\"calls\">{}</b> calls"
      "<span class=\"key refused\"></span><b id=\"refused\">{}</b> refused by the endpoint (429)"
      "</p>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Calls and refusals by the "
      "minute, "
      "at most {} in one\">\n",
      calls, refused, bar * f.hour.size(), height, most);
  const auto column = [&](std::size_t at, const char* kind, int inset, std::uint32_t count) {
    if (count == 0) return;
    // What happened is to be seen, however little beside the rest.
    const int tall = std::max(1, static_cast<int>(std::uint64_t{count} * height / most));
    to += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} min ago: {} "
        "{}</title></rect>\n",
        kind, static_cast<int>(at) * bar + inset, height - tall, bar - 2 * inset, tall,
        f.hour.size() - 1 - at, count, kind);
  };
  for (std::size_t i = 0; i < f.hour.size(); ++i) {
    column(i, "calls", 1, f.hour.at(i).calls);
    column(i, "refused", 3, f.hour.at(i).rate_limited);
  }
  to += "</svg>\n<p>60 minutes ago to now; the tallest bar is " + std::to_string(most) +
        " a minute.</p>\n";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

const std::string& page_policy() {
  static const std::string policy = "default-src 'none'; style-src 'sha256-" + hash_of(style) +
                                    "'; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'";
  return policy;
}

std::string status_page(const page_figures& of) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"refresh\" content=\"5\">\n<title>Sluice gate</title>\n<style>";
  page += style;
  page += "</style></head><body>\n<h1>Sluice gate</h1>\n";
  state(page, of);
  budget(page, of);
  line(page, of);
  chart(page, of);
  page += "</body></html>\n";
  return page;
}

}  // namespace sluice::app
