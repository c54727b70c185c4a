#include "common/config/validation.h"

#include <cstdint>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/config/combinations.h"
#include "common/config/size_limits.h"
#include "common/net/address.h"

namespace gimbal::config {
namespace {

constexpr int32_t kByteVocab = 256;

// Conditions of one config. Each Check returns the first that is broken.
class Validator {
 public:
  Validator(const v1::RunConfig& config, const std::string& name,
            const Origins& origins)
      : config_(config), name_(name), origins_(origins) {}

  absl::Status CheckData() const {
    const auto& data = config_.data();
    if (data.tokenizer() != "bytes") {
      return Error("data.tokenizer", "unknown tokenizer '", data.tokenizer(),
                   "', expected bytes");
    }
    const int32_t vocab = config_.model().vocab();
    if (data.format() == v1::DATA_FORMAT_TEXT && vocab < kByteVocab) {
      return Error("model.vocab", "text is read as bytes, so vocab must be at ",
                   "least ", kByteVocab, ", not ", vocab);
    }
    return absl::OkStatus();
  }

  absl::Status CheckModel() const {
    const auto& model = config_.model();
    if (model.hidden() % model.heads() != 0) {
      return Error("model.heads", "heads (", model.heads(),
                   ") must divide hidden (", model.hidden(), ")");
    }
    if (model.kv_heads() != 0 && model.kv_heads() != model.heads()) {
      return Error("model.kv_heads", "must be 0 or equal to heads (",
                   model.heads(), ") for gpt2, not ", model.kv_heads());
    }
    if (model.tie_embeddings()) {
      return Error("model.tie_embeddings", "only false is supported so far");
    }
    return absl::OkStatus();
  }

  absl::Status CheckPipeline() const {
    const auto& pipeline = config_.pipeline();
    const int32_t layers = config_.model().layers();
    const int32_t stages = pipeline.stages();
    if (layers < stages) {
      return Error("pipeline.stages", stages, " stages need at least ", stages,
                   " layers, model.layers is ", layers);
    }
    const auto& split = pipeline.split();
    if (split.empty()) return absl::OkStatus();
    const std::string text = absl::StrCat("[", absl::StrJoin(split, ", "), "]");
    if (split.size() != stages) {
      return Error("pipeline.split", text, " has ", split.size(),
                   " entries, pipeline.stages is ", stages);
    }
    for (const int32_t blocks : split) {
      if (blocks < 1) {
        return Error("pipeline.split", text, ": each stage needs at least 1 ",
                     "layer");
      }
    }
    const int64_t sum = std::accumulate(split.begin(), split.end(), int64_t{0});
    if (sum != layers) {
      return Error("pipeline.split", text, " sums to ", sum,
                   ", model.layers is ", layers);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOptimizer() const {
    const auto& optimizer = config_.optimizer();
    if (optimizer.betas_size() != 2) {
      return Error("optimizer.betas", "expected exactly 2 numbers, found ",
                   optimizer.betas_size());
    }
    const int64_t warmup = optimizer.schedule().warmup();
    if (warmup > config_.run().steps()) {
      return Error("optimizer.schedule.warmup", warmup,
                   " updates of warm-up, but run.steps is ",
                   config_.run().steps());
    }
    return absl::OkStatus();
  }

  absl::Status CheckCombinations() const {
    const auto broken = FindBrokenCombination(config_);
    if (!broken) return absl::OkStatus();
    return Error(broken->path, broken->what);
  }

  absl::Status CheckSizes() const {
    const auto broken = FindBrokenLimit(config_);
    if (!broken) return absl::OkStatus();
    return Error(broken->path, "too large: ", broken->product,
                 " must be at most ", broken->limit);
  }

  absl::Status CheckAddresses() const {
    const auto& cluster = config_.cluster();
    GIMBAL_RETURN_IF_ERROR(CheckAddress("cluster.listen", cluster.listen()));
    const std::string& metrics = cluster.metrics_listen();
    GIMBAL_RETURN_IF_ERROR(CheckAddress("cluster.metrics_listen", metrics));
    const std::string host = net::HostOf(metrics);
    if (host != "localhost" && !net::IsIpv4(host) && !net::IsIpv6(host)) {
      return Error("cluster.metrics_listen", "found '", metrics,
                   "', expected the host as a number (127.0.0.1, 0.0.0.0, ",
                   "[::1]) or localhost");
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Parts>
  absl::Status Error(const std::string& path, const Parts&... what) const {
    const auto origin = origins_.find(path);
    return KeyError(origin == origins_.end() ? name_ : origin->second, path,
                    absl::StrCat(what...));
  }

  absl::Status CheckAddress(const std::string& path,
                            const std::string& address) const {
    const size_t colon = address.rfind(':');
    int port = -1;
    if (colon == std::string::npos || colon == 0 ||
        !absl::SimpleAtoi(absl::string_view(address).substr(colon + 1),
                          &port) ||
        port < 0 || port > 65535) {
      return Error(path, "found '", address,
                   "', expected HOST:PORT with a port from 0 to 65535");
    }
    return absl::OkStatus();
  }

  const v1::RunConfig& config_;
  const std::string& name_;
  const Origins& origins_;
};

}  // namespace

absl::Status Validate(const v1::RunConfig& config, const std::string& name,
                      const Origins& origins) {
  const Validator validator(config, name, origins);
  GIMBAL_RETURN_IF_ERROR(validator.CheckModel());
  GIMBAL_RETURN_IF_ERROR(validator.CheckPipeline());
  GIMBAL_RETURN_IF_ERROR(validator.CheckOptimizer());
  GIMBAL_RETURN_IF_ERROR(validator.CheckCombinations());
  GIMBAL_RETURN_IF_ERROR(validator.CheckData());
  GIMBAL_RETURN_IF_ERROR(validator.CheckSizes());
  return validator.CheckAddresses();
}

}  // namespace gimbal::config
