#include "coordinator/run/standing_order.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gimbal::coordinator {
namespace {

using Request = v1::CommandRequest;

constexpr std::pair<Request::Verb, const char*> kTexts[] = {
    {Request::VERB_PAUSE, "pause after update "},
    {Request::VERB_DRAIN, "drain after update "},
    {Request::VERB_STOP, "stop after update "}};

}  // namespace

std::string ToText(const StandingOrder& order) {
  for (const auto& [verb, text] : kTexts) {
    if (order.verb == verb) return absl::StrCat(text, order.update);
  }
  return "none";
}

StandingOrder ParseStandingOrder(const std::string& text) {
  for (const auto& [verb, prefix] : kTexts) {
    absl::string_view rest(text.data(), text.size());
    StandingOrder order{.verb = verb};
    if (absl::ConsumePrefix(&rest, prefix) &&
        absl::SimpleAtoi(rest, &order.update)) {
      return order;
    }
  }
  return {};
}

}  // namespace gimbal::coordinator
