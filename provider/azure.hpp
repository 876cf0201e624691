// Azure OpenAI: which hosts are its, and where a call goes there. The model is named by a
// deployment in the path, and the version of the API by the query.
#pragma once

#include <string>
#include <string_view>

#include "provider/base_url.hpp"

namespace sluice::provider {

/// True for the hosts of Azure's own services. They want the key as "api-key".
bool is_azure(const base_url& url);

/// The same endpoint with what is missing put in: /openai/deployments/MODEL when the path names no
/// deployment and is not the versionless API (/openai/v1), and api-version when the query has none
/// and the path names a deployment. An empty `version` stands for the default one. Throws
/// std::invalid_argument for a version that cannot stand in a URL.
base_url azure_url(const base_url& url, std::string_view model, std::string_view version);

}  // namespace sluice::provider
