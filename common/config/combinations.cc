#include "common/config/combinations.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/stop_signals.h"

namespace gimbal::config {
namespace {

constexpr std::array kMitigations = {"lr_discount",
                                     "lr_linear",
                                     "beta1_by_delay",
                                     "weight_prediction",
                                     "error_feedback",
                                     "delay_compensation",
                                     "discrepancy_correction",
                                     "periodic_sync"};

constexpr char kKey[] = "staleness.mitigation";

class Mitigations {
 public:
  explicit Mitigations(const v1::RunConfig& config) : config_(config) {}

  bool Has(std::string_view name) const {
    const auto& names = config_.staleness().mitigation();
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  std::optional<BrokenCombination> CheckNames() const {
    const auto& names = config_.staleness().mitigation();
    for (auto it = names.begin(); it != names.end(); ++it) {
      const bool known =
          *it == "none" ||
          std::ranges::find(kMitigations, *it) != kMitigations.end();
      if (!known) {
        return Broken("unknown mitigation '", *it,
                      "', expected none or any of ",
                      absl::StrJoin(kMitigations, ", "));
      }
      if (std::find(names.begin(), it, *it) != it) {
        return Broken("'", *it, "' is given twice");
      }
    }
    if (Has("none") && names.size() > 1) {
      return Broken("'none' excludes the others");
    }
    return std::nullopt;
  }

  // What two mitigations would do to each other.
  std::optional<BrokenCombination> CheckPairs() const {
    struct Pair {
      const char *a, *b, *reason;
    };
    constexpr Pair kPairs[] = {
        {"lr_discount", "lr_linear",
         "both set the learning rate by delay: choose one"},
        {"weight_prediction", "error_feedback",
         "the prediction follows the optimizer's own direction, which error "
         "feedback does not apply"},
        {"weight_prediction", "delay_compensation",
         "a gradient taken at predicted weights has no delay left to "
         "compensate"},
        {"discrepancy_correction", "weight_prediction",
         "both move the weights of the backward pass: choose one"},
    };
    for (const Pair& pair : kPairs) {
      if (Has(pair.a) && Has(pair.b)) {
        return Broken(pair.a, " and ", pair.b, ": ", pair.reason);
      }
    }
    return std::nullopt;
  }

  std::optional<BrokenCombination> CheckStash() const {
    const bool stashes = config_.pipeline().stash() != v1::STASH_KIND_NONE;
    if (stashes && Has("discrepancy_correction")) {
      return Broken(
          "discrepancy_correction needs pipeline.stash: none; with a stash, "
          "backward uses the weights of its forward and nothing is left to "
          "correct");
    }
    for (const char* name : {"weight_prediction", "delay_compensation"}) {
      if (!stashes && Has(name)) {
        return Broken(name,
                      " needs pipeline.stash: full: it uses the weights "
                      "that the forward used");
      }
    }
    return std::nullopt;
  }

  std::optional<BrokenCombination> CheckOptimizer() const {
    if (Has("beta1_by_delay") &&
        config_.optimizer().name() == v1::OPTIMIZER_NAME_MUON) {
      return Broken(
          "beta1_by_delay is about Adam's beta1, which muon's "
          "matrices do not use");
    }
    if (Has("periodic_sync") &&
        config_.pipeline().schedule() != v1::SCHEDULE_KIND_ASYNC_1F1B) {
      return Broken(
          "periodic_sync needs pipeline.schedule: async-1f1b; the "
          "others are in step already");
    }
    return std::nullopt;
  }

 private:
  template <typename... Parts>
  static BrokenCombination Broken(const Parts&... parts) {
    return {kKey, absl::StrCat(parts...)};
  }

  const v1::RunConfig& config_;
};

std::optional<BrokenCombination> CheckSchedule(const v1::RunConfig& config) {
  const v1::PipelineSection& pipeline = config.pipeline();
  // A stage lists the actions of one update at a time.
  constexpr int kMostMicrobatches = 100000;
  if (config.batch().accumulate() > kMostMicrobatches) {
    return BrokenCombination{
        "batch.accumulate",
        absl::StrCat("found ", config.batch().accumulate(),
                     ", expected at most ", kMostMicrobatches)};
  }
  if (pipeline.schedule() == v1::SCHEDULE_KIND_2BW &&
      config.batch().accumulate() < pipeline.stages()) {
    return BrokenCombination{
        "batch.accumulate",
        absl::StrCat("2bw needs at least as many microbatches per update as "
                     "stages: accumulate (",
                     config.batch().accumulate(), ") >= stages (",
                     pipeline.stages(), ")")};
  }
  if (pipeline.stash() == v1::STASH_KIND_NONE &&
      pipeline.schedule() != v1::SCHEDULE_KIND_ASYNC_1F1B) {
    return BrokenCombination{
        "pipeline.stash",
        "none is for async-1f1b; the other schedules keep the versions they "
        "need and no more"};
  }
  return std::nullopt;
}

std::optional<BrokenCombination> CheckPrecision(const v1::RunConfig& config) {
  const v1::PrecisionSection& precision = config.precision();
  if (precision.compute() != v1::PRECISION_FP32 &&
      precision.compute() != v1::PRECISION_BF16) {
    return BrokenCombination{"precision.compute", "is fp32 or bf16"};
  }
  if (precision.matmul() != v1::PRECISION_FP32 &&
      precision.matmul() != v1::PRECISION_TF32) {
    return BrokenCombination{"precision.matmul", "is fp32 or tf32"};
  }
  if (precision.matmul() == v1::PRECISION_TF32 &&
      precision.compute() == v1::PRECISION_BF16) {
    return BrokenCombination{
        "precision.matmul",
        "tf32 is about factors of fp32, and with precision.compute: bf16 there "
        "are none: leave it out"};
  }
  if (precision.wire() == v1::PRECISION_TF32) {
    return BrokenCombination{"precision.wire", "is fp32, bf16 or int8"};
  }
  if (precision.wire() == v1::PRECISION_FP16) {
    return BrokenCombination{"precision.wire",
                             "gradients are out of fp16's range; bf16 takes "
                             "as little room"};
  }
  if (precision.basis() != v1::PRECISION_FP32 &&
      precision.basis() != v1::PRECISION_FP16) {
    return BrokenCombination{"precision.basis", "is fp32 or fp16"};
  }
  return std::nullopt;
}

std::optional<BrokenCombination> CheckRefresh(const v1::RunConfig& config) {
  const v1::RotationSection& rotation = config.optimizer().rotation();
  if (rotation.policy() == v1::REFRESH_POLICY_ADAPTIVE &&
      rotation.adapt_every() < rotation.max_period()) {
    return BrokenCombination{
        "optimizer.rotation.adapt_every",
        absl::StrCat("a stage that refreshes every max_period (",
                     rotation.max_period(), ") updates measures nothing in ",
                     rotation.adapt_every(),
                     " updates: expected at least max_period")};
  }
  if (rotation.policy() != v1::REFRESH_POLICY_UNIFORM &&
      rotation.period() > rotation.max_period()) {
    return BrokenCombination{
        "optimizer.rotation.max_period",
        absl::StrCat("the longest period (", rotation.max_period(),
                     ") is below the mean one, optimizer.rotation.period (",
                     rotation.period(), ")")};
  }
  return std::nullopt;
}

std::optional<BrokenCombination> CheckStopSignals(const v1::RunConfig& config) {
  for (const std::string& name : config.cluster().stop_signals()) {
    if (base::StopSignal(name)) continue;
    return BrokenCombination{
        "cluster.stop_signals",
        absl::StrCat("found '", name, "', expected any of ",
                     absl::StrJoin(base::kStopSignals, ", "))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<BrokenCombination> FindBrokenCombination(
    const v1::RunConfig& config) {
  const Mitigations mitigations(config);
  if (auto broken = mitigations.CheckNames()) return broken;
  if (auto broken = mitigations.CheckPairs()) return broken;
  if (auto broken = mitigations.CheckStash()) return broken;
  if (auto broken = mitigations.CheckOptimizer()) return broken;
  if (auto broken = CheckSchedule(config)) return broken;
  if (auto broken = CheckPrecision(config)) return broken;
  if (auto broken = CheckRefresh(config)) return broken;
  return CheckStopSignals(config);
}

}  // namespace gimbal::config
