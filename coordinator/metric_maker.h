// Makes the metrics of one run: families as they are needed, the run's label on
// every series.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace gimbal::coordinator {

// Metrics live as long as the registry, which must outlive this.
class MetricMaker {
 public:
  using Labels = std::map<std::string, std::string>;

  MetricMaker(prometheus::Registry& registry, std::string run)
      : registry_(registry), run_(std::move(run)) {}

  prometheus::Gauge* MakeGauge(const char* name, const char* help,
                               const Labels& labels = {}) {
    return &Family(prometheus::BuildGauge(), name, help).Add(With(labels));
  }
  prometheus::Counter* MakeCounter(const char* name, const char* help,
                                   const Labels& labels = {}) {
    return &Family(prometheus::BuildCounter(), name, help).Add(With(labels));
  }
  prometheus::Histogram* MakeHistogram(
      const char* name, const char* help,
      const prometheus::Histogram::BucketBoundaries& buckets,
      const Labels& labels = {}) {
    return &Family(prometheus::BuildHistogram(), name, help)
                .Add(With(labels), buckets);
  }
  // A gauge that appears with its first value.
  std::function<void(double)> MakeLate(const char* name, const char* help,
                                       const Labels& labels = {}) {
    auto* family = &Family(prometheus::BuildGauge(), name, help);
    return [family, labels = With(labels),
            gauge = static_cast<prometheus::Gauge*>(nullptr)](
               double value) mutable {
      if (gauge == nullptr) gauge = &family->Add(labels);
      gauge->Set(value);
    };
  }

 private:
  template <typename Metric>
  prometheus::Family<Metric>& Family(
      prometheus::detail::Builder<Metric> builder, const char* name,
      const char* help) {
    return builder.Name(name).Help(help).Register(registry_);
  }
  Labels With(Labels labels) const {
    labels["run"] = run_;
    return labels;
  }

  prometheus::Registry& registry_;
  const std::string run_;
};

}  // namespace gimbal::coordinator
