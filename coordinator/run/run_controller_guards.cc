// Minibatches that do damage.
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {
namespace {

std::string RangeText(const LeftOut& left_out) {
  if (left_out.first == left_out.last) {
    return absl::StrCat("minibatch ", left_out.first);
  }
  return absl::StrCat("minibatches ", left_out.first, " to ", left_out.last);
}

}  // namespace

// What was computed with them is void, in every stage, and so are the refresh
// plans made of it: all go back to before the first of them.
void RunController::LeaveOut(LeftOut left_out, base::SteadyTime now) {
  left_out.generation = generation_;
  absl::Status saved =
      effects_.SaveLeftOut(left_out, refresh_.MakeVoid(left_out.first));
  if (saved.ok()) saved = effects_.DropCheckpointsAfter(left_out.first - 1);
  if (!saved.ok()) return Fail(saved.ToString());
  memory_.GoBack(left_out.first - 1);
  const std::string what = absl::StrCat(RangeText(left_out), " left out");
  effects_.Record(what, left_out.reason, left_out.first);
  void_rows_ = true;
  must_go_back_ = absl::StrCat(what, ": ", left_out.reason);
  if (Recovering()) return;
  if (!Transition(v1::RUN_STATE_RECOVERING, *must_go_back_)) return;
  waits_since_ = now;
  alive_since_ = base::SteadyTime();
  counted_restart_ = true;  // nothing was lost
  of_loss_ = false;
}

// An earlier life decided, but may have ended before anybody went back. Then
// the stages that workers hold are void too.
absl::Status RunController::TakeUpGuards(const RunHistory& history) {
  guards_.Restore(history.left_out);
  if (history.left_out.empty()) return absl::OkStatus();
  const LeftOut& newest = history.left_out.back();
  if (newest.generation < history.generation) return absl::OkStatus();
  takes_holdings_ = false;
  return effects_.DropCheckpointsAfter(newest.first - 1);
}

}  // namespace gimbal::coordinator
