// Answers made to exhaust whoever reads them, and what each is to be called.
#pragma once

#include <string>
#include <vector>

#include "fixtures/scripted_answer.hpp"
#include "retry/reason.hpp"
#include "tests/support/compress.hpp"

namespace sluice::testing {

struct hostile {
  const char* name;
  std::vector<fixtures::raw_step> steps;
  retry::reason expected;
};

inline std::vector<hostile> hostile_answers() {
  using fixtures::raw_step;
  using retry::reason;
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  const std::string blanks(65536, ' ');
  constexpr unsigned endless = 1U << 20U;
  const auto say = [](std::string bytes, unsigned times = 1) {
    raw_step step;
    step.bytes = std::move(bytes);
    step.times = times;
    return step;
  };
  // In one piece: tiny writes would keep the server busy, not the client.
  const auto many = [](const std::string& text, unsigned times) {
    std::string out;
    for (unsigned i = 0; i < times; ++i) out += text;
    return out;
  };
  const auto of_length = [&](std::size_t size) {
    return say(head + "Content-Length: " + std::to_string(size) + "\r\n\r\n");
  };
  const auto packed = [&](const std::string& body, const char* coding) {
    return std::vector<raw_step>{
        say("HTTP/1.1 200 OK\r\nContent-Encoding: " + std::string(coding) +
            "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n"),
        say(body)};
  };
  const std::string zeros(std::size_t{64} << 20U, '0');
  const std::string zipped = compress(zeros, wrapper::gzip);
  return {
      {"BodyWithoutEnd", {say(head + "\r\n"), say(blanks, endless)}, reason::response_too_large},
      {"ChunksWithoutEnd",
       {say(head + "Transfer-Encoding: chunked\r\n\r\n"),
        say("10000\r\n" + blanks + "\r\n", endless)},
       reason::response_too_large},
      {"AGibibyteAnnounced",
       {of_length(std::size_t{1} << 30U), say(blanks, 16384)},
       reason::response_too_large},
      {"NestedBrackets",
       {of_length(100000), say(std::string(100000, '['))},
       reason::malformed_response},
      {"NestedObjects",
       {of_length(990000), say(many("{\"choices\":", 90000))},
       reason::malformed_response},
      {"TwoMillionZeros", {of_length(2000000), say(std::string(2000000, '0'))}, reason::not_json},
      {"ANumberOfTwoMillionZeros",
       {of_length(2000011), say("{\"choices\":"), say(std::string(2000000, '0'))},
       reason::malformed_response},
      {"ATextOfManyEscapes",
       {of_length(1800034), say("{\"choices\":[{\"message\":{\"content\":\""),
        say(many("\\u0030", 300000))},
       reason::malformed_response},
      {"GzipBomb", packed(zipped, "gzip"), reason::response_too_large},
      {"GzipBombTwice", packed(compress(zipped, wrapper::gzip), "gzip, gzip"),
       reason::response_too_large},
      {"DeflateBomb", packed(compress(zeros, wrapper::none), "deflate"),
       reason::response_too_large},
      {"TenMebibytesOfHeaders",
       {say(head), say(many("X-Field: " + std::string(1000, 'x') + "\r\n", 64), 160)},
       reason::malformed_response},
      {"AHeaderLineWithoutEnd",
       {say(head + "X: "), say(std::string(65536, 'x'), 160)},
       reason::malformed_response},
      {"InterimAnswersWithoutEnd",
       {say(many("HTTP/1.1 102 Processing\r\n\r\n", 1000), endless)},
       reason::malformed_response},
      {"EventsWithoutEnd",
       {say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"),
        say(many("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 1000), endless)},
       reason::response_too_large},
  };
}

}  // namespace sluice::testing
