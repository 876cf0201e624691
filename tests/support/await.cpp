#include "tests/support/await.hpp"
