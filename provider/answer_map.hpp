// Which places of a JSON answer mean something: a map from keys to places, as data. Everything else
// is nowhere, and so is all below it.
#pragma once

#include <string_view>

namespace sluice::provider {

/// A place in an answer that something is read from.
enum class place : unsigned char {
  nowhere,
  root,
  // A completion.
  choices,
  choice,
  message,
  finish,
  content,
  part,
  part_type,
  part_text,
  refusal,
  reasoning,
  tools,
  usage,
  prompt_tokens,
  completion_tokens,
  request_id,
  object_kind,
  // An error, in the places where the dialects put it.
  error,
  errors,
  inner_error,
  code,       ///< a status as a number, or a word
  word,       ///< a word out of a fixed vocabulary
  words,      ///< a message for people
  raw_words,  ///< the message of a provider behind a router
  metadata,
  details,
  detail,
  violations,
  violation,
  quota_id,
  headers,
  header,
  wait,
  flagged,
  size,
  last = size,
};

/// The place of the value of `key` in an object at `from`.
place below(place from, std::string_view key);

/// The place of the elements of an array at `from`.
place element_of(place from);

}  // namespace sluice::provider
