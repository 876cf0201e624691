// What the command line names as input, checked and spread out before anything is read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pipeline/documents/document.hpp"

namespace sluice::pipeline {

/// One thing to read: a text file, a JSONL file or standard input.
struct input {
  origin::kind from = origin::kind::text_file;
  std::string path;       ///< "-" for standard input
  std::size_t id_at = 0;  ///< a text file's ID is its path from here
};

/// Checks all that is named and lists it in order; a folder becomes its .txt and .md files, sorted
/// by path, without hidden files and symbolic links. Throws input_failure for what does not exist,
/// cannot be opened, is no file, or names standard input twice.
std::vector<input> list_inputs(const std::vector<std::string>& named);

}  // namespace sluice::pipeline
