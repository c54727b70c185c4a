#include "coordinator/page/loss_curve.h"

#include <cmath>

namespace gimbal::coordinator {

void LossCurve::Series::Add(int64_t update, double value) {
  if (!std::isfinite(value)) return;
  if (buckets.empty() || buckets.back().count == values_per_bucket) {
    if (buckets.size() == kMostPoints) Halve();
    buckets.emplace_back();
  }
  Bucket& bucket = buckets.back();
  bucket.update = update;
  bucket.sum += value;
  ++bucket.count;
}

// Requires that every bucket is full.
void LossCurve::Series::Halve() {
  for (size_t i = 0; i + 1 < buckets.size(); i += 2) {
    buckets[i / 2] = {.update = buckets[i + 1].update,
                      .sum = buckets[i].sum + buckets[i + 1].sum,
                      .count = buckets[i].count + buckets[i + 1].count};
  }
  buckets.resize(buckets.size() / 2);
  values_per_bucket *= 2;
}

std::vector<LossCurve::Point> LossCurve::Series::Points() const {
  std::vector<Point> points;
  for (const Bucket& bucket : buckets) {
    points.push_back(
        {bucket.update, bucket.sum / static_cast<double>(bucket.count)});
  }
  return points;
}

void LossCurve::Add(const MetricsRow& row) {
  std::lock_guard lock(mutex_);
  AddLocked(row);
}

void LossCurve::AddLocked(const MetricsRow& row) {
  if (row.left_out.empty()) losses_.Add(row.step, row.loss);
  if (row.valid_loss) valid_losses_.Add(row.step, *row.valid_loss);
}

void LossCurve::Restart(const std::vector<MetricsRow>& rows) {
  std::lock_guard lock(mutex_);
  losses_ = {};
  valid_losses_ = {};
  for (const MetricsRow& row : rows) AddLocked(row);
}

std::vector<LossCurve::Point> LossCurve::losses() const {
  std::lock_guard lock(mutex_);
  return losses_.Points();
}

std::vector<LossCurve::Point> LossCurve::valid_losses() const {
  std::lock_guard lock(mutex_);
  return valid_losses_.Points();
}

}  // namespace gimbal::coordinator
