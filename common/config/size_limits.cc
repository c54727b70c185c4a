#include "common/config/size_limits.h"

#include <limits>
#include <vector>

namespace gimbal::config {
namespace {

// Rows, columns and leading dimensions are 32-bit in BLAS.
constexpr int64_t kMaxDimension = std::numeric_limits<int32_t>::max();
// Elements of one tensor: 4 TiB in fp32, beyond which a size is a typing error.
constexpr int64_t kMaxElements = int64_t{1} << 40;
// Tokens of a run, and all that counts less.
constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();

struct Limit {
  const char* path;
  const char* product;
  std::vector<int64_t> factors;
  int64_t limit;
};

bool Holds(const Limit& limit) {
  int64_t product = 1;
  for (const int64_t factor : limit.factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return false;
  }
  return product <= limit.limit;
}

}  // namespace

std::optional<BrokenLimit> FindBrokenLimit(const v1::RunConfig& config) {
  const auto& model = config.model();
  const int64_t hidden = model.hidden();
  const int64_t mlp = model.mlp_ratio();
  const int64_t context = model.context();
  const int64_t microbatch = config.batch().microbatch();
  const int64_t accumulate = config.batch().accumulate();
  const Limit limits[] = {
      {"model.hidden", "3 * hidden", {3, hidden}, kMaxDimension},
      {"model.mlp_ratio", "mlp_ratio * hidden", {mlp, hidden}, kMaxDimension},
      {"batch.microbatch",
       "microbatch * context",
       {microbatch, context},
       kMaxDimension},
      {"model.hidden", "3 * hidden^2", {3, hidden, hidden}, kMaxElements},
      {"model.mlp_ratio",
       "mlp_ratio * hidden^2",
       {mlp, hidden, hidden},
       kMaxElements},
      {"model.vocab", "vocab * hidden", {model.vocab(), hidden}, kMaxElements},
      {"model.context", "context * hidden", {context, hidden}, kMaxElements},
      {"batch.microbatch",
       "microbatch * context * 3 * hidden",
       {microbatch, context, 3, hidden},
       kMaxElements},
      {"batch.microbatch",
       "microbatch * context * mlp_ratio * hidden",
       {microbatch, context, mlp, hidden},
       kMaxElements},
      {"batch.microbatch",
       "microbatch * context * vocab",
       {microbatch, context, model.vocab()},
       kMaxElements},
      {"model.context",
       "microbatch * heads * context^2",
       {microbatch, model.heads(), context, context},
       kMaxElements},
      {"run.steps",
       "steps * accumulate * microbatch * context",
       {config.run().steps(), accumulate, microbatch, context},
       kMaxCount},
  };
  for (const Limit& limit : limits) {
    if (!Holds(limit)) {
      return BrokenLimit{limit.path, limit.product, limit.limit};
    }
  }
  return std::nullopt;
}

}  // namespace gimbal::config
