// Early returns for absl::Status and absl::StatusOr.
//
//   GIMBAL_RETURN_IF_ERROR(file.Sync());
//   GIMBAL_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define GIMBAL_RETURN_IF_ERROR(expr)                                  \
  do {                                                                \
    if (absl::Status gimbal_status_ = (expr); !gimbal_status_.ok()) { \
      return gimbal_status_;                                          \
    }                                                                 \
  } while (false)

#define GIMBAL_CONCAT_INNER_(a, b) a##b
#define GIMBAL_CONCAT_(a, b) GIMBAL_CONCAT_INNER_(a, b)
#define GIMBAL_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()
#define GIMBAL_ASSIGN_OR_RETURN(lhs, expr) \
  GIMBAL_ASSIGN_OR_RETURN_(GIMBAL_CONCAT_(gimbal_or_, __LINE__), lhs, expr)
