// Which endpoint a run talks to: the one configured, or a fake one inside this process.
#pragma once

#include <memory>
#include <string>

#include "app/settings.hpp"
#include "fixtures/fake_endpoint.hpp"
#include "provider/base_url.hpp"
#include "provider/http_endpoint.hpp"
#include "provider/request_template.hpp"

namespace sluice::app {

/// Everything about the endpoint that a run needs, checked.
struct target {
  settings with;  ///< with the model, the limit and the endpoint filled in
  provider::base_url url;
  std::string key;
  provider::key_header key_goes = provider::key_header::authorization;
  std::optional<provider::proxy> via;
  std::string origin;   ///< for fingerprints
  std::string display;  ///< for people and the store
  std::unique_ptr<fixtures::fake_endpoint> fake;
};

/// Throws settings_error 78 when endpoint, model, key or proxy are missing or wrong.
target make_target(settings s);

/// The request template of these settings. Throws settings_error 78.
provider::request_template make_template(const settings& s);

}  // namespace sluice::app
