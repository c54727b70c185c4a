// Matchers for absl::Status and absl::StatusOr.
//
//   EXPECT_THAT(file.Sync(), IsOk());
//   EXPECT_THAT(ReadFile("nope"),
//               StatusIs(absl::StatusCode::kNotFound, HasSubstr("nope")));
//   ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(path));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gimbal::test_support {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.ok();
}

// The code alone.
MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code;
}

// The code, and a string or a matcher for the message.
MATCHER_P2(StatusIs, code, message,
           "has status code " + absl::StatusCodeToString(code) +
               " and a matching message") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         testing::Matches(message)(std::string(status.message()));
}

}  // namespace gimbal::test_support

#define GIMBAL_TEST_CONCAT_INNER_(a, b) a##b
#define GIMBAL_TEST_CONCAT_(a, b) GIMBAL_TEST_CONCAT_INNER_(a, b)
#define GIMBAL_ASSERT_OK_AND_ASSIGN_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  ASSERT_THAT(tmp, ::gimbal::test_support::IsOk());  \
  lhs = std::move(tmp).value()
#define ASSERT_OK_AND_ASSIGN(lhs, expr)                                        \
  GIMBAL_ASSERT_OK_AND_ASSIGN_(GIMBAL_TEST_CONCAT_(gimbal_test_or_, __LINE__), \
                               lhs, expr)
