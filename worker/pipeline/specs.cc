#include "worker/pipeline/specs.h"

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
          .init_std = model.init_std()};
}

ScheduleSpec ScheduleSpecOf(const v1::RunConfig& config) {
  ScheduleSpec spec{.stages = config.pipeline().stages(),
                    .accumulate = config.batch().accumulate()};
  switch (config.pipeline().schedule()) {
    case v1::SCHEDULE_KIND_1F1B:
      spec.kind = ScheduleKind::k1F1B;
      break;
    case v1::SCHEDULE_KIND_GPIPE:
      spec.kind = ScheduleKind::kGPipe;
      break;
    default:
      spec.kind = ScheduleKind::kAsync1F1B;
  }
  spec.global_norm = spec.kind != ScheduleKind::kAsync1F1B;
  return spec;
}

OptimizerSpec OptimizerSpecOf(const v1::RunConfig& config) {
  const v1::OptimizerSection& optimizer = config.optimizer();
  GIMBAL_CHECK(optimizer.betas_size() == 2);
  return {.kind = optimizer.name() == v1::OPTIMIZER_NAME_ADAMW
                      ? OptimizerKind::kAdamW
                      : OptimizerKind::kBasisRotation,
          .beta1 = optimizer.betas(0),
          .beta2 = optimizer.betas(1),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay()};
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

StageSpec StageSpecOf(const v1::RunConfig& config,
                      const v1::StagePlacement& placement) {
  return {.model = ModelSpecOf(config),
          .first_block = placement.first_block(),
          .blocks = placement.blocks(),
          .first = placement.stage() == 0,
          .last = placement.stage() == config.pipeline().stages() - 1,
          .microbatch = config.batch().microbatch()};
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
