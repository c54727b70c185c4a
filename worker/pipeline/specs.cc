#include "worker/pipeline/specs.h"

#include <algorithm>

#include "common/base/log.h"

namespace gimbal::worker {
namespace {

Activation ActivationOf(v1::Activation activation) {
  switch (activation) {
    case v1::ACTIVATION_GELU_ERF:
      return Activation::kGeluErf;
    case v1::ACTIVATION_RELU:
      return Activation::kRelu;
    default:
      return Activation::kGeluTanh;
  }
}

OptimizerKind KindOf(v1::OptimizerName name) {
  switch (name) {
    case v1::OPTIMIZER_NAME_ADAMW:
    case v1::OPTIMIZER_NAME_NADAMW:
      return OptimizerKind::kAdamW;
    case v1::OPTIMIZER_NAME_MUON:
      return OptimizerKind::kMuon;
    case v1::OPTIMIZER_NAME_SGD:
      return OptimizerKind::kSgd;
    default:
      return OptimizerKind::kBasisRotation;
  }
}

RotationSpec RotationSpecOf(const v1::RunConfig& config) {
  const v1::RotationSection& rotation = config.optimizer().rotation();
  return {
      .source = rotation.source() == v1::ROTATION_SOURCE_FIRST
                    ? RotationSource::kFirst
                    : RotationSource::kSecond,
      .geometry = rotation.geometry() == v1::ROTATION_GEOMETRY_UNILATERAL
                      ? RotationGeometry::kUnilateral
                      : RotationGeometry::kBilateral,
      .max_dim = rotation.max_dim(),
      .embeddings = rotation.embeddings(),
      .transport = rotation.moment_transport() == v1::MOMENT_TRANSPORT_ROTATE
                       ? MomentTransport::kRotate
                       : MomentTransport::kPermute,
      .half_basis = config.precision().basis() == v1::PRECISION_FP16,
      .max_orthogonality_error = rotation.max_orthogonality_error()};
}

}  // namespace

ModelSpec ModelSpecOf(const v1::RunConfig& config) {
  const v1::ModelSection& model = config.model();
  return {.layers = model.layers(),
          .hidden = model.hidden(),
          .heads = model.heads(),
          .context = model.context(),
          .vocab = model.vocab(),
          .mlp_hidden = model.mlp_ratio() * model.hidden(),
          .activation = ActivationOf(model.activation()),
          .qkv_bias = model.qkv_bias(),
          .head_bias = model.head_bias(),
          .init_std = model.init_std(),
          .bf16 = config.precision().compute() == v1::PRECISION_BF16,
          .tf32 = config.precision().matmul() == v1::PRECISION_TF32};
}

ScheduleSpec ScheduleSpecOf(const v1::RunConfig& config) {
  ScheduleSpec spec{.stages = config.pipeline().stages(),
                    .accumulate = config.batch().accumulate(),
                    .origin = config.pipeline().origin()};
  switch (config.pipeline().schedule()) {
    case v1::SCHEDULE_KIND_1F1B:
      spec.kind = ScheduleKind::k1F1B;
      break;
    case v1::SCHEDULE_KIND_GPIPE:
      spec.kind = ScheduleKind::kGPipe;
      break;
    case v1::SCHEDULE_KIND_2BW:
      spec.kind = ScheduleKind::k2BW;
      break;
    default:
      spec.kind = ScheduleKind::kAsync1F1B;
  }
  spec.global_norm =
      spec.kind == ScheduleKind::k1F1B || spec.kind == ScheduleKind::kGPipe;
  spec.stash = config.pipeline().stash() != v1::STASH_KIND_NONE;
  if (HasMitigation(config, "periodic_sync")) {
    spec.sync_every = config.staleness().periodic_sync().every();
  }
  return spec;
}

OptimizerSpec OptimizerSpecOf(const v1::RunConfig& config) {
  const v1::OptimizerSection& optimizer = config.optimizer();
  GIMBAL_CHECK(optimizer.betas_size() == 2);
  return {.kind = KindOf(optimizer.name()),
          .nesterov = optimizer.name() == v1::OPTIMIZER_NAME_NADAMW ||
                      optimizer.momentum() == v1::MOMENTUM_KIND_NESTEROV,
          .beta1 = optimizer.betas(0),
          .beta2 = optimizer.betas(1),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay(),
          .moment_reset = optimizer.moment_reset(),
          .offload = optimizer.offload() == v1::OFFLOAD_KIND_HOST,
          .rotation = RotationSpecOf(config),
          .muon = {.momentum = optimizer.muon().momentum(),
                   .iterations = optimizer.muon().iterations()}};
}

bool HasMitigation(const v1::RunConfig& config, std::string_view name) {
  const auto& names = config.staleness().mitigation();
  return std::find(names.begin(), names.end(), name) != names.end();
}

MitigationSpec MitigationSpecOf(const v1::RunConfig& config) {
  const v1::StalenessSection& staleness = config.staleness();
  const auto has = [&](const char* name) {
    return HasMitigation(config, name);
  };
  MitigationSpec spec{.lr_linear = has("lr_linear"),
                      .lr_slope = staleness.lr_linear().slope(),
                      .lr_floor = staleness.lr_linear().floor(),
                      .lr_matrix_factor = staleness.lr_linear().matrix_factor(),
                      .beta1_by_delay = has("beta1_by_delay"),
                      .weight_prediction = has("weight_prediction"),
                      .error_feedback = has("error_feedback")};
  if (has("lr_discount")) {
    const int64_t updates = staleness.lr_discount().updates();
    spec.lr_discount_updates =
        updates > 0 ? updates : std::max<int64_t>(1, config.run().steps() / 4);
  }
  if (has("delay_compensation")) {
    spec.compensation = staleness.delay_compensation().lambda();
    spec.compensation_adaptive = staleness.delay_compensation().adaptive();
    spec.compensation_rotated = staleness.delay_compensation().rotated();
  }
  if (has("discrepancy_correction")) {
    spec.discrepancy_decay = staleness.discrepancy_correction().decay();
  }
  return spec;
}

LrSpec LrSpecOf(const v1::RunConfig& config) {
  const v1::LrSchedule& schedule = config.optimizer().schedule();
  LrSpec spec{.peak = config.optimizer().lr(),
              .warmup = schedule.warmup(),
              .steps = config.run().steps(),
              .min_ratio = schedule.min_ratio(),
              .decay_fraction = schedule.decay_fraction()};
  switch (schedule.kind()) {
    case v1::LR_SCHEDULE_KIND_CONSTANT:
      spec.kind = LrKind::kConstant;
      break;
    case v1::LR_SCHEDULE_KIND_WSD:
      spec.kind = LrKind::kWsd;
      break;
    default:
      spec.kind = LrKind::kCosine;
  }
  return spec;
}

DataFormat DataFormatOf(const v1::RunConfig& config) {
  return config.data().format() == v1::DATA_FORMAT_TEXT ? DataFormat::kText
                                                        : DataFormat::kTokens;
}

compute::WireFormat WireFormatOf(const v1::RunConfig& config) {
  switch (config.precision().wire()) {
    case v1::PRECISION_BF16:
      return compute::WireFormat::kBf16;
    case v1::PRECISION_INT8:
      return compute::WireFormat::kInt8;
    default:
      return compute::WireFormat::kFp32;
  }
}

StageSpec StageSpecOf(const v1::RunConfig& config,
                      const v1::StagePlacement& placement) {
  return {.model = ModelSpecOf(config),
          .first_block = placement.first_block(),
          .blocks = placement.blocks(),
          .first = placement.stage() == 0,
          .last = placement.stage() == config.pipeline().stages() - 1,
          .microbatch = config.batch().microbatch()};
}

StageStateSpec StageStateSpecOf(const v1::RunConfig& config,
                                const v1::StagePlacement& placement) {
  return {.stage = StageSpecOf(config, placement),
          .schedule = ScheduleSpecOf(config),
          .index = placement.stage(),
          .update = {.optimizer = OptimizerSpecOf(config),
                     .lr = LrSpecOf(config),
                     .clip = config.optimizer().clip(),
                     .mitigation = MitigationSpecOf(config)},
          .wire = WireFormatOf(config)};
}

StageEngineSpec EngineSpecOf(const v1::RunConfig& config) {
  return {.stage = WholeModelOf(config, config.batch().microbatch()),
          .update = {.optimizer = OptimizerSpecOf(config)},
          .wire = WireFormatOf(config)};
}

StageSpec WholeModelOf(const v1::RunConfig& config, int microbatch) {
  return {.model = ModelSpecOf(config),
          .first_block = 0,
          .blocks = config.model().layers(),
          .first = true,
          .last = true,
          .microbatch = microbatch};
}

int64_t TokensPerUpdate(const v1::RunConfig& config) {
  return int64_t{config.batch().microbatch()} * config.batch().accumulate() *
         config.model().context();
}

}  // namespace gimbal::worker
