// An environment variable of the processes that are started meanwhile.
#pragma once

#include <cstdlib>

namespace gimbal::test_support {

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
  }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

// Lets a run last, on the fastest machine too: at least 2 ms for forward and
// for backward of every microbatch.
class SlowStages : public Environment {
 public:
  SlowStages() : Environment("GIMBAL_STAGE_SECONDS", "0.002") {}
};

}  // namespace gimbal::test_support
