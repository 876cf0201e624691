// One text file as one document's text.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace sluice::pipeline {

/// Why a text file cannot be used.
struct text_file_error {
  std::uint64_t line = 0;  ///< where, or 0 for the whole file
  std::string cause;
};

/// Reads a UTF-8 file of at most `longest_document` bytes. Nothing is changed but that a byte order
/// mark is dropped.
std::variant<std::string, text_file_error> read_text_file(const std::string& path);

}  // namespace sluice::pipeline
