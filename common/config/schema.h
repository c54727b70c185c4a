// The keys of the run config, read from the descriptors of v1::RunConfig by
// protobuf reflection. Internal to common/config. Thread-safe.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "gimbal/v1/options.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace gimbal::config {

using Field = google::protobuf::FieldDescriptor;

// One key that takes a value, e.g. optimizer.schedule.warmup.
struct Key {
  std::string path;
  std::vector<const Field*> sections;  // from RunConfig down to the parent
  const Field* field = nullptr;
  bool affects_numbers = true;
};

// In the order of the schema.
const std::vector<Key>& AllKeys();
const Key* FindKey(std::string_view path);  // null when there is none

// Whether the field holds further keys (a Duration is a value, not a section).
bool IsSection(const Field& field);
bool IsDuration(const Field& field);

const v1::Rule& RuleOf(const Field& field);

// The message that holds the key's field.
const google::protobuf::Message& ParentOf(const v1::RunConfig& config,
                                          const Key& key);
google::protobuf::Message& MutableParentOf(v1::RunConfig& config,
                                           const Key& key);

// How an enum value is written in YAML: lower case, without the enum's prefix,
// and with '_' unless the key's default spells this value with '-'.
std::string EnumText(const Field& field, int number);
// All values of the field's enum, as EnumText gives them.
std::vector<std::string> EnumTexts(const Field& field);
// The value a text means, whatever its case and separators; null when unknown.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const Field& field, std::string_view text);

}  // namespace gimbal::config
