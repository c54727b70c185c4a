// What the run was asked for and has agreed to, as long as it is in force: it
// outlives the coordinator that agreed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

// Decision whose reason is the text of the order that is in force.
inline constexpr char kStandingOrder[] = "standing order";

struct StandingOrder {
  // PAUSE, DRAIN or STOP; UNSPECIFIED: there is none.
  v1::CommandRequest::Verb verb = v1::CommandRequest::VERB_UNSPECIFIED;
  int64_t update = 0;  // the last one before it is carried out

  bool ends_the_run() const {
    return verb == v1::CommandRequest::VERB_DRAIN ||
           verb == v1::CommandRequest::VERB_STOP;
  }
  friend bool operator==(const StandingOrder&, const StandingOrder&) = default;
};

// "pause after update 12"; "none".
std::string ToText(const StandingOrder& order);
// None of a text that ToText does not write.
StandingOrder ParseStandingOrder(const std::string& text);

// Decision whose reason begins with the text of how much is traced.
inline constexpr char kTraceInForce[] = "trace in force";

// "one of 4 updates is traced"; "every update is traced"; "nothing is traced".
std::string TraceText(int64_t every);
// Nothing of a text that does not begin with what TraceText writes.
std::optional<int64_t> ParseTrace(const std::string& text);

}  // namespace gimbal::coordinator
