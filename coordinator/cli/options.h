// Options that several verbs share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "common/net/address.h"
#include "coordinator/cli/number_text.h"

namespace gimbal::cli {

// The folder of a run, with or without the option's name: RUN_DIR or --run-dir.
template <typename T>
CLI::Option* AddRunDir(CLI::App* verb, T* run_dir, const char* help) {
  return verb->add_option("RUN_DIR,--run-dir", *run_dir, help);
}

template <typename T = int>
CLI::Validator WholeNumber(uint64_t least) {
  return {[=](const std::string& text) {
            return WholeNumberError(text, least, std::numeric_limits<T>::max());
          },
          ""};
}

// Where a coordinator serves.
inline CLI::Validator HostAndPort() {
  return {[](const std::string& text) {
            return net::IsHostAndPort(text)
                       ? ""
                       : text + ": expected HOST:PORT, e.g. trainer-1:7000";
          },
          ""};
}

inline CLI::Validator NumberFrom(double least) {
  return {[=](const std::string& text) {
            return NumberError(text, least, /*above=*/false);
          },
          ""};
}

inline CLI::Validator NumberAbove(double least) {
  return {[=](const std::string& text) {
            return NumberError(text, least, /*above=*/true);
          },
          ""};
}

}  // namespace gimbal::cli
