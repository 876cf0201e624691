# What every target of this project shares: warnings, sanitizers, include root, precompiled header.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)

add_library(sluice_settings INTERFACE)
target_compile_features(sluice_settings INTERFACE cxx_std_20)
target_include_directories(sluice_settings INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(sluice_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                 -Wnon-virtual-dtor -Woverloaded-virtual)
if(SLUICE_WERROR)
  target_compile_options(sluice_settings INTERFACE -Werror)
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_settings INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=undefined
                                                   # Its check opens a pipe, and cries wolf in the tests that run
                                                   # out of descriptors.
                                                   -fno-sanitize=vptr)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 loses track of variants under the sanitizers.
    target_compile_options(sluice_settings INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # clang 14 cannot write the mark of a function's type for the parts of a coroutine.
    target_compile_options(sluice_settings INTERFACE -fno-sanitize=function)
  endif()
  target_link_options(sluice_settings INTERFACE -fsanitize=address,undefined)
endif()

add_library(sluice_asio INTERFACE)
target_compile_definitions(sluice_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_SEPARATE_COMPILATION
                                                 BOOST_BEAST_USE_STD_STRING_VIEW)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees Asio's recycling coroutine allocator inlined on one side only.
  target_compile_options(sluice_asio INTERFACE -Wno-mismatched-new-delete)
endif()
target_link_libraries(sluice_asio INTERFACE sluice_settings Boost::headers Threads::Threads)

# sluice_library(NAME [LINK libs...]): one library per folder, all *.cpp below it.
function(sluice_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(sluice_${name} STATIC ${sources})
  target_link_libraries(sluice_${name} PUBLIC sluice_settings ${ARG_LINK})
endfunction()
