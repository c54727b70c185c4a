#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/run_config_io.h"
#include "common/config/schema.h"
#include "common/config/value_text.h"

namespace gimbal::config {
namespace {

std::string DefaultText(const v1::Rule& rule) {
  if (rule.required()) return "required";
  if (rule.default_().empty()) return "default: none";
  return absl::StrCat("default: ", rule.default_());
}

}  // namespace

std::string DescribeKeys() {
  size_t width = 0;
  for (const Key& key : AllKeys()) width = std::max(width, key.path.size());
  std::string text;
  for (const Key& key : AllKeys()) {
    const v1::Rule& rule = RuleOf(*key.field);
    absl::StrAppendFormat(&text, "%-*s  %s; %s (%s)\n", static_cast<int>(width),
                          key.path, rule.doc(), Expected(*key.field),
                          DefaultText(rule));
  }
  return text;
}

}  // namespace gimbal::config
