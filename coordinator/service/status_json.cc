#include "coordinator/service/status_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace gimbal::coordinator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::ordered_json;

ordered_json ToJson(const Message& message);

// Value `i` of a repeated field; `i` is -1 for a single one.
ordered_json Value(const Message& message, const FieldDescriptor* field,
                   int i) {
  const google::protobuf::Reflection& get = *message.GetReflection();
  const bool one = i < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? get.GetInt32(message, field)
                 : get.GetRepeatedInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? get.GetInt64(message, field)
                 : get.GetRepeatedInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? get.GetDouble(message, field)
                 : get.GetRepeatedDouble(message, field, i);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? get.GetString(message, field)
                 : get.GetRepeatedString(message, field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (one ? get.GetEnum(message, field)
                  : get.GetRepeatedEnum(message, field, i))
          ->name();
    default:
      return ToJson(one ? get.GetMessage(message, field)
                        : get.GetRepeatedMessage(message, field, i));
  }
}

ordered_json ToJson(const Message& message) {
  const google::protobuf::Reflection& get = *message.GetReflection();
  ordered_json object = ordered_json::object();
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* field = message.GetDescriptor()->field(f);
    if (field->is_repeated()) {
      ordered_json& list = object[field->name()] = ordered_json::array();
      for (int i = 0; i < get.FieldSize(message, field); ++i) {
        list.push_back(Value(message, field, i));
      }
    } else if (!field->has_presence() || get.HasField(message, field)) {
      object[field->name()] = Value(message, field, -1);
    }
  }
  return object;
}

}  // namespace

std::string StatusJson(const v1::GetStatusResponse& status, bool pretty) {
  return ToJson(status).dump(pretty ? 2 : -1, ' ', false,
                             ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace gimbal::coordinator
