#include "common/config/suggestion.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/schema.h"

namespace gimbal::config {
namespace {

struct Name {
  std::string section;  // "" at the top
  std::string last;
  std::string path() const {
    return section.empty() ? last : absl::StrCat(section, ".", last);
  }
};

Name Split(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, dot)), std::string(path.substr(dot + 1))};
}

// All keys and all sections, once each, in the order of the schema.
std::vector<Name> AllNames() {
  std::vector<Name> names;
  std::set<std::string> seen;
  for (const Key& key : AllKeys()) {
    for (size_t dot = key.path.find('.'); dot != std::string::npos;
         dot = key.path.find('.', dot + 1)) {
      const std::string section = key.path.substr(0, dot);
      if (seen.insert(section).second) names.push_back(Split(section));
    }
    names.push_back(Split(key.path));
  }
  return names;
}

// The nearest of those names whose section passes, if it is near enough.
template <typename Filter>
std::string Nearest(const Name& unknown, const Filter& passes) {
  int best = 1 + static_cast<int>(unknown.last.size()) / 4;
  std::string nearest;
  for (const Name& name : AllNames()) {
    const int distance = EditDistance(unknown.last, name.last);
    const bool better =
        distance < best || (distance == best && nearest.empty());
    if (better && passes(name)) {
      best = distance;
      nearest = name.path();
    }
  }
  return nearest;
}

}  // namespace

std::string SuggestKey(std::string_view path) {
  const Name unknown = Split(path);
  std::vector<std::string> elsewhere;
  std::vector<std::string> siblings;
  std::vector<std::string> sections;
  std::vector<std::string> inside;
  for (const Name& name : AllNames()) {
    if (name.last == unknown.last) elsewhere.push_back(name.path());
    if (name.section == unknown.section) siblings.push_back(name.last);
    if (name.section == path) inside.push_back(name.path());
    if (name.section.empty()) sections.push_back(name.last);
  }
  if (!inside.empty()) {
    return absl::StrCat("this is a section, its keys are ",
                        absl::StrJoin(inside, ", "));
  }
  if (!elsewhere.empty()) {
    return absl::StrCat("this key stands elsewhere; did you mean ",
                        absl::StrJoin(elsewhere, " or "), "?");
  }
  std::string nearest = Nearest(unknown, [&unknown](const Name& name) {
    return name.section == unknown.section;
  });
  if (nearest.empty()) {
    nearest = Nearest(unknown, [](const Name&) { return true; });
  }
  if (!nearest.empty()) return absl::StrCat("did you mean ", nearest, "?");
  return absl::StrCat(
      "expected one of ",
      absl::StrJoin(siblings.empty() ? sections : siblings, ", "));
}

int EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<int> table((a.size() + 1) * width);
  const auto at = [&table, width](size_t i, size_t j) -> int& {
    return table[i * width + j];
  };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = at(i - 1, j - 1) + (a[i - 1] != b[j - 1]);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace gimbal::config
