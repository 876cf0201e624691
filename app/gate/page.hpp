// The gate's status page: figures in, HTML out. Pure. Nothing on it is fetched from anywhere, no
// script runs on it, and everything that came from a caller is escaped.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/admission/gate_hour.hpp"

namespace sluice::app {

struct page_figures {
  struct use {
    std::string limit;         ///< as it would be written, "10/60s"
    std::int64_t used = 0;     ///< in the window up to now
    std::int64_t allowed = 0;  ///< in a window
  };
  std::vector<use> limits;                                ///< empty: there is no limit
  std::vector<std::pair<std::string, std::size_t>> line;  ///< calls waiting, by job
  std::size_t in_flight = 0;
  std::uint32_t max_in_flight = 0;  ///< 0: no limit
  duration cool_down{};             ///< for how long nobody is admitted
  std::array<pipeline::gate_hour::minute, pipeline::gate_hour::length> hour{};  ///< oldest first
};

/// A whole document in UTF-8. It asks to be loaded again every few seconds.
std::string status_page(const page_figures& of);

/// The Content-Security-Policy it goes with: nothing but its own style sheet, told by its hash.
const std::string& page_policy();

/// Text for HTML, in elements and in quoted attributes.
std::string escaped(std::string_view text);

}  // namespace sluice::app
