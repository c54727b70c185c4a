#include "common/config/value_reader.h"

#include <yaml-cpp/yaml.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/scalar_reader.h"
#include "common/config/value_text.h"
#include "google/protobuf/duration.pb.h"

namespace gimbal::config {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsQuoted(const YAML::Node& node) { return node.Tag() == "!"; }

absl::Status Mismatch(const Field& field, const YAML::Node& node) {
  const std::string& doc = RuleOf(field).doc();
  return absl::InvalidArgumentError(absl::StrCat("found ", FoundText(node),
                                                 ", expected ", Expected(field),
                                                 " (", doc, ")"));
}

bool InBounds(const Field& field, double value) {
  const v1::Rule& rule = RuleOf(field);
  return !(rule.has_min() && value < rule.min()) &&
         !(rule.has_max() && value > rule.max()) &&
         !(rule.has_exclusive_min() && value <= rule.exclusive_min());
}

// Where a read value goes: the field itself or the end of its list.
struct Target {
  Message& parent;
  const Field& field;

  const Reflection& reflection() const { return *parent.GetReflection(); }
  void Put(int32_t v) const {
    field.is_repeated() ? reflection().AddInt32(&parent, &field, v)
                        : reflection().SetInt32(&parent, &field, v);
  }
  void Put(double v) const {
    field.is_repeated() ? reflection().AddDouble(&parent, &field, v)
                        : reflection().SetDouble(&parent, &field, v);
  }
  void Put(const std::string& v) const {
    field.is_repeated() ? reflection().AddString(&parent, &field, v)
                        : reflection().SetString(&parent, &field, v);
  }
  void Put(int64_t v) const { reflection().SetInt64(&parent, &field, v); }
  void Put(uint64_t v) const { reflection().SetUInt64(&parent, &field, v); }
  void Put(bool v) const { reflection().SetBool(&parent, &field, v); }
  void Put(const DurationParts& v) const {
    auto& duration = static_cast<google::protobuf::Duration&>(
        *reflection().MutableMessage(&parent, &field));
    duration.set_seconds(v.seconds);
    duration.set_nanos(v.nanos);
  }
};

double Magnitude(const DurationParts& v) {
  return static_cast<double>(v.seconds) + v.nanos * 1e-9;
}
template <typename T>
double Magnitude(T v) {
  return static_cast<double>(v);
}

template <typename T>
bool PutIfGood(const Target& target, const std::optional<T>& value) {
  if (!value || !InBounds(target.field, Magnitude(*value))) return false;
  target.Put(*value);
  return true;
}

bool PutEnum(const Target& target, const std::string& text) {
  const auto* value = FindEnumValue(target.field, text);
  if (value == nullptr) return false;
  target.reflection().SetEnum(&target.parent, &target.field, value);
  return true;
}

bool PutText(const Target& target, const std::string& text) {
  const bool missing = text.empty() && RuleOf(target.field).required();
  if (missing || !IsPrintableUtf8(text)) return false;
  target.Put(text);
  return true;
}

// False when the scalar does not fit the field.
bool PutScalar(const Target& target, const YAML::Node& node) {
  if (!node.IsScalar()) return false;
  const std::string& text = node.Scalar();
  if (target.field.cpp_type() == Field::CPPTYPE_STRING) {
    return PutText(target, text);
  }
  if (IsQuoted(node)) return false;
  switch (target.field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return PutIfGood(target, ReadInt32(text));
    case Field::CPPTYPE_INT64:
      return PutIfGood(target, ReadInt64(text));
    case Field::CPPTYPE_UINT64:
      return PutIfGood(target, ReadUint64(text));
    case Field::CPPTYPE_DOUBLE:
      return PutIfGood(target, ReadDouble(text));
    case Field::CPPTYPE_BOOL:
      return PutIfGood(target, ReadBool(text));
    case Field::CPPTYPE_ENUM:
      return PutEnum(target, text);
    default:
      return PutIfGood(target, ReadDuration(text));
  }
}

absl::Status SetList(const Target& target, const YAML::Node& node) {
  target.reflection().ClearField(&target.parent, &target.field);
  const std::string word = EmptyListWord(target.field);
  if (!word.empty() && node.IsScalar() && node.Scalar() == word) {
    return absl::OkStatus();
  }
  if (!node.IsSequence() || node.size() == 0) {
    return Mismatch(target.field, node);
  }
  for (const YAML::Node& element : node) {
    if (!PutScalar(target, element)) return Mismatch(target.field, element);
  }
  return absl::OkStatus();
}

}  // namespace

std::string FoundText(const YAML::Node& node) {
  constexpr size_t kLongest = 60;
  switch (node.Type()) {
    case YAML::NodeType::Scalar: {
      std::string text = node.Scalar();
      if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
      return IsQuoted(node) ? absl::StrCat("the text \"", text, "\"")
                            : absl::StrCat("'", text, "'");
    }
    case YAML::NodeType::Sequence:
      return node.size() == 0 ? "an empty list" : "a list";
    case YAML::NodeType::Map:
      return "a section";
    default:
      return "nothing";
  }
}

absl::Status SetValue(v1::RunConfig& config, const Key& key,
                      const YAML::Node& value) {
  const Target target{MutableParentOf(config, key), *key.field};
  if (key.field->is_repeated()) return SetList(target, value);
  if (PutScalar(target, value)) return absl::OkStatus();
  return Mismatch(*key.field, value);
}

}  // namespace gimbal::config
