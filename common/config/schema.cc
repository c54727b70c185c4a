#include "common/config/schema.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "google/protobuf/duration.pb.h"

namespace gimbal::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::Message;

void CollectKeys(const Descriptor& section, const Key& parent,
                 std::vector<Key>& keys) {
  for (int i = 0; i < section.field_count(); ++i) {
    const Field& field = *section.field(i);
    Key key = parent;
    key.path += (parent.path.empty() ? "" : ".") + field.name();
    key.field = &field;
    const v1::Rule& rule = RuleOf(field);
    if (rule.has_affects_numbers()) {
      key.affects_numbers = rule.affects_numbers();
    }
    if (IsSection(field)) {
      key.sections.push_back(&field);
      CollectKeys(*field.message_type(), key, keys);
    } else {
      keys.push_back(std::move(key));
    }
  }
}

// Lower case, with '_' for '-'.
std::string Folded(std::string_view text) {
  std::string folded(text);
  for (char& c : folded) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(c));
  }
  return folded;
}

// SCHEDULE_KIND_ASYNC_1F1B -> async_1f1b. The prefix is that of the value 0,
// which every enum calls PREFIX_UNSPECIFIED.
std::string FoldedName(const EnumValueDescriptor& value) {
  constexpr std::string_view kZero = "UNSPECIFIED";
  const std::string& zero = value.type()->value(0)->name();
  return Folded(value.name().substr(zero.size() - kZero.size()));
}

}  // namespace

const std::vector<Key>& AllKeys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> result;
    CollectKeys(*v1::RunConfig::descriptor(), Key{}, result);
    return result;
  }();
  return keys;
}

const Key* FindKey(std::string_view path) {
  const auto found = std::ranges::find(AllKeys(), path, &Key::path);
  return found == AllKeys().end() ? nullptr : &*found;
}

bool IsDuration(const Field& field) {
  return field.message_type() == google::protobuf::Duration::descriptor();
}

bool IsSection(const Field& field) {
  return field.message_type() != nullptr && !IsDuration(field);
}

const v1::Rule& RuleOf(const Field& field) {
  return field.options().GetExtension(v1::rule);
}

const Message& ParentOf(const v1::RunConfig& config, const Key& key) {
  const Message* parent = &config;
  for (const Field* section : key.sections) {
    parent = &parent->GetReflection()->GetMessage(*parent, section);
  }
  return *parent;
}

Message& MutableParentOf(v1::RunConfig& config, const Key& key) {
  Message* parent = &config;
  for (const Field* section : key.sections) {
    parent = parent->GetReflection()->MutableMessage(parent, section);
  }
  return *parent;
}

std::string EnumText(const Field& field, int number) {
  const EnumValueDescriptor* value =
      field.enum_type()->FindValueByNumber(number);
  if (value == nullptr) return std::to_string(number);
  std::string text = FoldedName(*value);
  const std::string& spelled = RuleOf(field).default_();
  return Folded(spelled) == text ? spelled : text;
}

std::vector<std::string> EnumTexts(const Field& field) {
  std::vector<std::string> texts;
  const EnumDescriptor& type = *field.enum_type();
  for (int i = 1; i < type.value_count(); ++i) {
    texts.push_back(EnumText(field, type.value(i)->number()));
  }
  return texts;
}

const EnumValueDescriptor* FindEnumValue(const Field& field,
                                         std::string_view text) {
  const std::string folded = Folded(text);
  const EnumDescriptor& type = *field.enum_type();
  for (int i = 1; i < type.value_count(); ++i) {
    if (FoldedName(*type.value(i)) == folded) return type.value(i);
  }
  return nullptr;
}

}  // namespace gimbal::config
