#include "common/config/sources.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <sstream>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/schema.h"
#include "common/config/suggestion.h"
#include "common/config/value_reader.h"
#include "common/config/value_text.h"

namespace gimbal::config {
namespace {

using google::protobuf::Descriptor;

// Takes no notice of what is in a document.
class Ignore final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll would not come to an end on some damaged texts.
bool HasSecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  return parser.HandleNextDocument(ignore) && parser.HandleNextDocument(ignore);
}

// The only document of the text; yaml-cpp's exceptions end here.
absl::StatusOr<YAML::Node> ParseYaml(const std::string& text,
                                     const std::string& where) {
  try {
    if (HasSecondDocument(text)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": several YAML documents, expected one"));
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ":", error.mark.line + 1, ": not valid YAML: ", error.msg));
  }
}

class YamlReader {
 public:
  YamlReader(const std::string& name, v1::RunConfig& config, Origins& origins)
      : name_(name), config_(config), origins_(origins) {}

  // `path` is "" for the whole config.
  absl::Status ReadSection(const YAML::Node& node, const Descriptor& section,
                           const std::string& path) {
    if (node.IsNull()) return absl::OkStatus();
    if (!node.IsMap()) {
      return KeyError(Where(node), path.empty() ? "config" : path,
                      absl::StrCat("found ", FoundText(node),
                                   ", expected a section of `key: value`"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) {
        return KeyError(Where(key), path.empty() ? "config" : path,
                        "a key must be a plain word");
      }
      const std::string& word = key.Scalar();
      const std::string full = path.empty() ? word : path + "." + word;
      if (!seen.insert(word).second) {
        return KeyError(Where(key), full, "this key stands here twice");
      }
      const Field* field = section.FindFieldByName(word);
      if (field == nullptr) {
        return KeyError(Where(key), full,
                        absl::StrCat("unknown key; ", SuggestKey(full)));
      }
      GIMBAL_RETURN_IF_ERROR(ReadKey(key, entry.second, *field, full));
    }
    return absl::OkStatus();
  }

 private:
  std::string Where(const YAML::Node& node) const {
    return absl::StrCat(name_, ":", node.Mark().line + 1);
  }

  absl::Status ReadKey(const YAML::Node& key, const YAML::Node& value,
                       const Field& field, const std::string& path) {
    if (IsSection(field)) {
      return ReadSection(value, *field.message_type(), path);
    }
    const absl::Status status = SetValue(config_, *FindKey(path), value);
    if (!status.ok()) {
      return KeyError(Where(key), path, std::string(status.message()));
    }
    origins_[path] = Where(key);
    return absl::OkStatus();
  }

  const std::string& name_;
  v1::RunConfig& config_;
  Origins& origins_;
};

}  // namespace

absl::Status KeyError(const std::string& where, const std::string& path,
                      const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", path, ": ", what));
}

absl::Status ReadYaml(const std::string& text, const std::string& name,
                      v1::RunConfig& config, Origins& origins) {
  GIMBAL_ASSIGN_OR_RETURN(const YAML::Node root, ParseYaml(text, name));
  return YamlReader(name, config, origins)
      .ReadSection(root, *v1::RunConfig::descriptor(), "");
}

absl::Status ApplyOverride(const std::string& override, v1::RunConfig& config,
                           Origins& origins) {
  const std::string where = absl::StrCat("--set ", override);
  const size_t equals = override.find('=');
  if (equals == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected KEY=VALUE, e.g. --set run.steps=100"));
  }
  const std::string path = override.substr(0, equals);
  const std::string text = override.substr(equals + 1);
  const Key* key = FindKey(path);
  if (key == nullptr) {
    return KeyError(where, path,
                    absl::StrCat("unknown key; ", SuggestKey(path)));
  }
  GIMBAL_ASSIGN_OR_RETURN(const YAML::Node value,
                          ParseYaml(text.empty() ? "\"\"" : text, where));
  const absl::Status status = SetValue(config, *key, value);
  if (!status.ok()) return KeyError(where, path, std::string(status.message()));
  origins[path] = where;
  return absl::OkStatus();
}

absl::Status FillDefaults(const std::string& name, const Origins& origins,
                          v1::RunConfig& config) {
  for (const Key& key : AllKeys()) {
    if (origins.contains(key.path)) continue;
    const v1::Rule& rule = RuleOf(*key.field);
    if (rule.required()) {
      return KeyError(name, key.path,
                      absl::StrCat("missing; expected ", Expected(*key.field),
                                   " (", rule.doc(), ")"));
    }
    if (rule.default_().empty()) {
      MutableParentOf(config, key);  // the section is there all the same
      continue;
    }
    GIMBAL_ASSIGN_OR_RETURN(const YAML::Node value,
                            ParseYaml(rule.default_(), "default"));
    const absl::Status status = SetValue(config, key, value);
    if (!status.ok()) {
      return KeyError("default", key.path, std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace gimbal::config
