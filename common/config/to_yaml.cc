#include <yaml-cpp/yaml.h>

#include "common/config/run_config_io.h"
#include "common/config/schema.h"
#include "common/config/value_text.h"

namespace gimbal::config {
namespace {

void EmitValue(YAML::Emitter& out, const v1::RunConfig& config,
               const Key& key) {
  const auto& parent = ParentOf(config, key);
  const int size = key.field->is_repeated()
                       ? parent.GetReflection()->FieldSize(parent, key.field)
                       : 0;
  if (size == 0) {
    out << ValueText(config, key);
    return;
  }
  out << YAML::Flow << YAML::BeginSeq;
  for (int i = 0; i < size; ++i) out << ElementText(config, key, i);
  out << YAML::EndSeq;
}

void EmitSection(YAML::Emitter& out, const v1::RunConfig& config,
                 const google::protobuf::Descriptor& section,
                 const std::string& prefix) {
  out << YAML::BeginMap;
  for (int i = 0; i < section.field_count(); ++i) {
    const Field& field = *section.field(i);
    const std::string path = prefix + field.name();
    out << YAML::Key << field.name() << YAML::Value;
    if (IsSection(field)) {
      EmitSection(out, config, *field.message_type(), path + ".");
    } else {
      EmitValue(out, config, *FindKey(path));
    }
  }
  out << YAML::EndMap;
}

}  // namespace

std::string ToYaml(const v1::RunConfig& config) {
  YAML::Emitter out;
  EmitSection(out, config, *v1::RunConfig::descriptor(), "");
  return std::string(out.c_str()) + "\n";
}

}  // namespace gimbal::config
