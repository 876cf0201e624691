// Azure's addresses.
#include "provider/azure.hpp"

#include <gtest/gtest.h>

namespace sluice::provider {
namespace {

std::string where(const std::string& url, const std::string& version = "") {
  const base_url parsed = parse_base_url(url);
  return azure_url(parsed, "gpt 4o", version).target;
}

TEST(Azure, IsKnownByItsHosts) {
  for (const char* url : {"https://me.openai.azure.com", "https://me.cognitiveservices.azure.com/x",
                          "https://ME.OPENAI.AZURE.COM/v1", "https://me.services.ai.azure.com"})
    EXPECT_TRUE(is_azure(parse_base_url(url))) << url;
  for (const char* url : {"https://openai.azure.com.evil.example", "https://api.openai.com/v1",
                          "https://evilopenai.azure.com"})
    EXPECT_FALSE(is_azure(parse_base_url(url))) << url;
}

TEST(Azure, AResourceAloneLeadsToTheModelsDeployment) {
  const std::string there = "/openai/deployments/gpt%204o/chat/completions?api-version=2024-10-21";
  EXPECT_EQ(where("https://me.openai.azure.com"), there);
  EXPECT_EQ(where("https://me.openai.azure.com/"), there);
  EXPECT_EQ(where("https://me.openai.azure.com/openai/"), there);
}

TEST(Azure, ADeploymentInThePathIsKept) {
  const std::string base = "https://me.openai.azure.com/openai/deployments/mine";
  EXPECT_EQ(where(base), "/openai/deployments/mine/chat/completions?api-version=2024-10-21");
  EXPECT_EQ(where(base + "/chat/completions?api-version=2025-01-01-preview"),
            "/openai/deployments/mine/chat/completions?api-version=2025-01-01-preview");
  EXPECT_EQ(where(base + "?x=1", "2025-01-01-preview"),
            "/openai/deployments/mine/chat/completions?x=1&api-version=2025-01-01-preview");
  EXPECT_EQ(where("https://gateway.example/openai/deployments/mine"),
            "/openai/deployments/mine/chat/completions?api-version=2024-10-21");
}

TEST(Azure, TheVersionlessApiIsLeftAsItIs) {
  EXPECT_EQ(where("https://me.openai.azure.com/openai/v1"), "/openai/v1/chat/completions");
  EXPECT_EQ(where("https://me.openai.azure.com/openai/v1", "preview"),
            "/openai/v1/chat/completions?api-version=preview");
}

TEST(Azure, AVersionThatCannotStandInAUrlIsRefused) {
  for (const char* version : {"a&b", "2024 10", "x#", "2024\r\n"})
    EXPECT_THROW(where("https://me.openai.azure.com", version), std::invalid_argument) << version;
}

}  // namespace
}  // namespace sluice::provider
