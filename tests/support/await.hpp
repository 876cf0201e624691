// Runs one coroutine to its end on an io_context of its own, for tests of single parts.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <stdexcept>

namespace sluice::testing {

/// Runs `operation` on `context` until it ends; rethrows what it throws.
template <class T>
T run_to_end(boost::asio::io_context& context, boost::asio::awaitable<T> operation) {
  std::optional<T> result;
  std::exception_ptr failure;
  boost::asio::co_spawn(context, std::move(operation), [&](std::exception_ptr e, T value) {
    failure = e;
    if (!e) result.emplace(std::move(value));
  });
  context.restart();
  context.run();
  if (failure) std::rethrow_exception(failure);
  if (!result) throw std::logic_error("the coroutine never ended");
  return std::move(*result);
}

inline void run_to_end(boost::asio::io_context& context, boost::asio::awaitable<void> operation) {
  std::exception_ptr failure;
  bool ended = false;
  boost::asio::co_spawn(context, std::move(operation), [&](std::exception_ptr e) {
    failure = e;
    ended = true;
  });
  context.restart();
  context.run();
  if (failure) std::rethrow_exception(failure);
  if (!ended) throw std::logic_error("the coroutine never ended");
}

}  // namespace sluice::testing
