#include "common/config/value_text.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace gimbal::config {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

std::string DoubleText(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  // YAML 1.1 readers take 1e-08 for a string, 1.0e-08 for a number.
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string DurationText(const Message& message) {
  const auto& value = static_cast<const google::protobuf::Duration&>(message);
  return absl::FormatDuration(absl::Seconds(value.seconds()) +
                              absl::Nanoseconds(value.nanos()));
}

std::string SingleText(const Message& parent, const Field& field) {
  const Reflection& r = *parent.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return absl::StrCat(r.GetInt32(parent, &field));
    case Field::CPPTYPE_INT64:
      return absl::StrCat(r.GetInt64(parent, &field));
    case Field::CPPTYPE_UINT64:
      return absl::StrCat(r.GetUInt64(parent, &field));
    case Field::CPPTYPE_DOUBLE:
      return DoubleText(r.GetDouble(parent, &field));
    case Field::CPPTYPE_BOOL:
      return r.GetBool(parent, &field) ? "true" : "false";
    case Field::CPPTYPE_ENUM:
      return EnumText(field, r.GetEnumValue(parent, &field));
    case Field::CPPTYPE_STRING:
      return r.GetString(parent, &field);
    default:
      return DurationText(r.GetMessage(parent, &field));
  }
}

std::string Noun(const Field& field, bool plural) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_DOUBLE:
      return plural ? "numbers" : "a number";
    case Field::CPPTYPE_BOOL:
      return "true or false";
    case Field::CPPTYPE_ENUM: {
      const std::vector<std::string> texts = EnumTexts(field);
      return absl::StrCat(texts.size() == 1 ? "only " : "one of ",
                          absl::StrJoin(texts, ", "));
    }
    case Field::CPPTYPE_STRING:
      return plural ? "texts" : "a text";
    case Field::CPPTYPE_MESSAGE:
      return "a duration such as 3s, 500ms or 2m";
    default:
      return plural ? "integers" : "an integer";
  }
}

std::string Bounds(const Field& field) {
  const v1::Rule& rule = RuleOf(field);
  const std::string unit = IsDuration(field) ? "s" : "";
  const auto bound = [&unit](double value) {
    return absl::StrCat(DoubleText(value), unit);
  };
  if (rule.has_min() && rule.has_max()) {
    return rule.min() == rule.max() ? absl::StrCat(", only ", bound(rule.min()))
                                    : absl::StrCat(", from ", bound(rule.min()),
                                                   " to ", bound(rule.max()));
  }
  if (rule.has_min()) return absl::StrCat(", at least ", bound(rule.min()));
  if (rule.has_max()) return absl::StrCat(", at most ", bound(rule.max()));
  if (rule.has_exclusive_min()) {
    return absl::StrCat(", above ", bound(rule.exclusive_min()));
  }
  return "";
}

}  // namespace

std::string ElementText(const v1::RunConfig& config, const Key& key,
                        int index) {
  const Message& parent = ParentOf(config, key);
  const Reflection& r = *parent.GetReflection();
  switch (key.field->cpp_type()) {
    case Field::CPPTYPE_INT32:
      return absl::StrCat(r.GetRepeatedInt32(parent, key.field, index));
    case Field::CPPTYPE_DOUBLE:
      return DoubleText(r.GetRepeatedDouble(parent, key.field, index));
    default:
      return r.GetRepeatedString(parent, key.field, index);
  }
}

std::string ValueText(const v1::RunConfig& config, const Key& key) {
  const Message& parent = ParentOf(config, key);
  if (!key.field->is_repeated()) return SingleText(parent, *key.field);
  const int size = parent.GetReflection()->FieldSize(parent, key.field);
  if (size == 0) return EmptyListWord(*key.field);
  std::vector<std::string> elements;
  for (int i = 0; i < size; ++i) {
    elements.push_back(ElementText(config, key, i));
  }
  return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
}

std::string EmptyListWord(const Field& field) {
  const std::string& text = RuleOf(field).default_();
  return field.is_repeated() && !text.starts_with("[") ? text : "";
}

std::string Expected(const Field& field) {
  if (!field.is_repeated()) {
    return absl::StrCat(Noun(field, /*plural=*/false), Bounds(field));
  }
  const std::string word = EmptyListWord(field);
  return absl::StrCat(word, word.empty() ? "" : " or ", "a list of ",
                      Noun(field, /*plural=*/true), Bounds(field));
}

}  // namespace gimbal::config
