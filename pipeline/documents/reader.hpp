// Documents from files, folders, JSONL and standard input, and the same ones again for a re-run.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/documents/document.hpp"

namespace sluice::pipeline {

/// Opens a batch. An input is a folder (its .txt and .md files, recursively and sorted; the ID is
/// the path below it), a .jsonl file, any other regular file (one document; the ID is its name) or
/// `-` (JSONL on standard input). All are checked before this returns: throws input_failure. What
/// is bad about single documents comes out as bad_document; no two items have the same ID. Memory
/// does not grow with the batch.
std::unique_ptr<document_source> open_documents(asio::any_io_executor executor,
                                                std::vector<std::string> inputs);

/// A document to be read again from where it came.
struct rerun_target {
  std::string id;
  origin from;
  std::string kept_document;  ///< JSON, of one that came on standard input
};

/// Reads documents again: each JSONL file once, in the order of its lines. What is no longer there
/// comes out as bad_document with the reason document_missing and the document's own ID.
std::unique_ptr<document_source> open_rerun(asio::any_io_executor executor,
                                            std::vector<rerun_target> targets);

}  // namespace sluice::pipeline
