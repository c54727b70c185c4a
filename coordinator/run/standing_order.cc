#include "coordinator/run/standing_order.h"

#include <utility>

#include "absl/strings/match.h"
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

constexpr char kNothing[] = "nothing is traced";
constexpr char kEvery[] = "every update is traced";
constexpr char kOneOf[] = "one of ";
constexpr char kUpdates[] = " updates is traced";

}  // namespace

std::string ToText(const StandingOrder& order) {
  for (const auto& [verb, text] : kTexts) {
    if (order.verb == verb) return absl::StrCat(text, order.update);
  }
  return "none";
}

std::string TraceText(int64_t every) {
  if (every == 0) return kNothing;
  if (every == 1) return kEvery;
  return absl::StrCat(kOneOf, every, kUpdates);
}

std::optional<int64_t> ParseTrace(const std::string& text) {
  absl::string_view rest(text.data(), text.size());
  if (absl::StartsWith(rest, kNothing)) return 0;
  if (absl::StartsWith(rest, kEvery)) return 1;
  int64_t every = 0;
  const size_t end = rest.find(kUpdates);
  if (!absl::ConsumePrefix(&rest, kOneOf) || end == absl::string_view::npos ||
      !absl::SimpleAtoi(rest.substr(0, end - sizeof(kOneOf) + 1), &every) ||
      every < 2) {
    return std::nullopt;
  }
  return every;
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
