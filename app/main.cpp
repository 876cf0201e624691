#include "app/program.hpp"

int main(int argc, char** argv) {
  return sluice::app::program(argc, argv);
}
