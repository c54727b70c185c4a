// Runs side by side: how many updates each needs to reach a loss, and how much
// slower that is than the first run. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/cli/run_record.h"

namespace gimbal::cli {

// Updates that a reported loss is the mean of.
inline constexpr int kLossWindow = 50;

// Element t is the mean of the last `window` losses up to update t + 1, of all
// of them while there are fewer.
std::vector<double> SmoothedLosses(std::span<const MetricsRow> rows,
                                   int window);

// The mean of the last 50 losses, of all of them when there are fewer.
double FinalLoss(std::span<const MetricsRow> rows);

// Of what a run's reported loss is the mean: "50 updates". Shorter runs are
// named: "50 updates (b: all its 4)".
std::string LossWindowText(std::span<const RunRecord> runs);

// First update at which the mean of the last 50 losses is at most `target`.
// Updates before the 50th do not count, unless the run is shorter.
std::optional<int64_t> StepsToLoss(std::span<const MetricsRow> rows,
                                   double target);

// Up to three losses worth asking for, in descending order and with one
// decimal where that tells them apart: what every run reached, what the best
// one reached, and half-way.
std::vector<double> DefaultTargets(std::span<const RunRecord> runs);

// One row per run: method, P, losses, updates to each target with the
// slow-down against the first run, tokens per second.
std::string ComparisonTable(std::span<const RunRecord> runs,
                            std::span<const double> targets);

}  // namespace gimbal::cli
