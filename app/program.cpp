#include "app/program.hpp"

#include <iostream>

#include "app/command_line.hpp"
#include "app/exit_codes.hpp"
#include "app/reports.hpp"
#include "app/sending.hpp"
#include "pipeline/documents/document.hpp"
#include "pipeline/outcomes/records.hpp"

namespace sluice::app {
namespace {

struct dispatch {
  int operator()(const said& what) const {
    std::cout << what.text << std::flush;
    return exit_codes::success;
  }
  int operator()(const run_command& what) const { return run(what); }
  int operator()(const rerun_command& what) const { return rerun(what); }
  int operator()(const status_command& what) const { return status(what); }
  int operator()(const results_command& what) const { return results(what); }
  int operator()(const budget_init_command& what) const { return budget_init(what); }
  int operator()(const budget_show_command& what) const { return budget_show(what); }
  int operator()(const gate_command& what) const { return serve_gate(what); }
  int operator()(const fake_command& what) const {
    try {
      return fixtures::serve_until_signalled(what.with);
    } catch (const std::exception& e) {
      throw settings_error(retry::exit_code::configuration, e.what());
    }
  }
};

int say(int code, const std::string& text) {
  std::cerr << "sluice: " << text << std::endl;
  return code;
}

}  // namespace

int program(int argc, const char* const* argv) {
  try {
    return std::visit(dispatch(), parse_command_line(argc, argv));
  } catch (const settings_error& e) {
    return say(e.code(), e.what());
  } catch (const pipeline::store_error& e) {
    return say(e.code(), e.what());
  } catch (const pipeline::input_failure& e) {
    return say(exit_codes::unreadable_input, e.what());
  } catch (const std::exception& e) {
    return say(exit_codes::internal, std::string("an error inside sluice, please report it: ") +
                                         e.what() + "; outcomes already reported are kept");
  }
}

}  // namespace sluice::app
