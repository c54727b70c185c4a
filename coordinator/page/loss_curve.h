// The losses of a run for a picture: as many points as a screen can show,
// however long the run is. When there are too many, two neighbours become one,
// their mean.
//
// Thread-safe: rows come from the loop, pictures are asked for on other
// threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "coordinator/ledger/metrics_row.h"

namespace gimbal::coordinator {

class LossCurve {
 public:
  // Even.
  static constexpr size_t kMostPoints = 600;

  struct Point {
    int64_t update = 0;  // last one of the mean
    double loss = 0;
  };

  // Rows in order; what is left out has no loss.
  void Add(const MetricsRow& row);
  // The rows of the run are these from now on.
  void Restart(const std::vector<MetricsRow>& rows);

  std::vector<Point> losses() const;
  std::vector<Point> valid_losses() const;

 private:
  struct Series {
    struct Bucket {
      int64_t update = 0;
      double sum = 0;
      int64_t count = 0;
    };
    void Add(int64_t update, double value);
    void Halve();
    std::vector<Point> Points() const;

    int64_t values_per_bucket = 1;
    std::vector<Bucket> buckets;
  };
  void AddLocked(const MetricsRow& row);

  mutable std::mutex mutex_;
  Series losses_;        // guarded by mutex_
  Series valid_losses_;  // guarded by mutex_
};

}  // namespace gimbal::coordinator
