// A document, where it came from, and the stream that the workers draw from.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "retry/reason.hpp"

namespace sluice::pipeline {

namespace asio = boost::asio;

/// Where a document came from, enough to read it again.
struct origin {
  enum class kind { text_file, jsonl_line, standard_input };
  kind from = kind::text_file;
  std::string path;        ///< as given or found; empty for standard input
  std::uint64_t line = 0;  ///< physical line, from 1; 0 for a text file
  /// There is no ID that could be used, and it is called after its place. What is called so is
  /// never taken for a document of that very ID.
  bool unnamed = false;
};

/// One document. IDs are data: never file names, never markup. Exactly one of `text` and `messages`
/// is set; `messages` is the JSON array of a ready conversation, as text.
struct document {
  std::string id;
  std::string text;
  std::string messages;
  origin from;
};

/// A document that cannot be sent, known before anything is. For a line without a usable ID of its
/// own (`from.unnamed`) the ID is FILE:LINE.
struct bad_document {
  std::string id;
  retry::reason why = retry::reason::input_error;
  std::string detail;  ///< one line, with FILE:LINE and the cause
  origin from;
};

using source_item = std::variant<document, bad_document>;

/// A stream of documents, read as it is drawn from. One caller at a time.
class document_source {
 public:
  virtual ~document_source() = default;
  /// The next one, or nothing at the end. Throws input_failure when the batch cannot be read.
  virtual asio::awaitable<std::optional<source_item>> next() = 0;
  /// Ends a wait for a slow pipe or terminal, which is read no further; what lies in files can be
  /// had at once and still comes.
  virtual void abort() {}
  /// How many there will be, when that can be told beforehand.
  virtual std::optional<std::uint64_t> expected() const { return std::nullopt; }
};

/// The batch cannot be read (exit 65). The message names the thing, the cause and the remedy.
class input_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace sluice::pipeline
