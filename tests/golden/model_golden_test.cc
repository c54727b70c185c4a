// Runs every golden file of kind "model": loss, logits and the gradient of each
// parameter, in double and in single precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/golden/golden_files.h"
#include "worker/model/stage.h"

namespace gimbal::testing {
namespace {

using nlohmann::json;
using worker::Activation;
using worker::ModelSpec;
using worker::Param;
using worker::Stage;
using worker::StageSpec;

bool IsBuilt(const json& golden) {
  return golden.at("arch").get<std::string>().find("GPT-2") !=
             std::string::npos &&
         !golden.at("config").value("tied_head", false);
}

Activation ActivationOf(const std::string& name) {
  static const std::map<std::string, Activation> kNames = {
      {"gelu_tanh", Activation::kGeluTanh},
      {"gelu_erf", Activation::kGeluErf},
      {"relu", Activation::kRelu}};
  const auto it = kNames.find(name);
  if (it == kNames.end()) throw std::invalid_argument("activation " + name);
  return it->second;
}

StageSpec SpecOf(const json& config) {
  StageSpec spec;
  ModelSpec& model = spec.model;
  model.layers = config.at("layers");
  model.hidden = config.at("width");
  model.heads = config.at("heads");
  model.context = config.at("context");
  model.vocab = config.at("vocab");
  model.mlp_hidden = config.at("mlp_ratio").get<int>() * model.hidden;
  model.activation = ActivationOf(config.at("activation"));
  model.qkv_bias = config.at("qkv_bias");
  model.head_bias = config.at("head_bias");
  model.norm_eps = config.at("layernorm_eps");
  spec.blocks = model.layers;
  spec.first = spec.last = true;
  spec.microbatch = config.at("batch");
  return spec;
}

std::vector<int32_t> Ids(const json& value, const std::string& what) {
  const std::vector<double> numbers = GoldenNumbers(value, what);
  return {numbers.begin(), numbers.end()};
}

// Largest difference, relative to the largest entry. An entirely zero reference
// (the key bias has no effect on the loss) is compared with 1.
template <typename T>
double RelativeError(const T* got, const std::vector<double>& want) {
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (std::isnan(difference)) return difference;
    error = std::max(error, difference);
  }
  return error / (largest < 1e-12 ? 1.0 : largest);
}

template <typename T>
void RunModel(const json& golden, double tolerance) {
  Stage<T> stage(SpecOf(golden.at("config")));
  const auto& table = stage.table();
  ASSERT_EQ(golden.at("params").size(), table.params().size());
  ASSERT_EQ(golden.at("grads").size(), table.params().size());
  std::vector<T> weights(table.size());
  for (const Param& p : table.params()) {
    const auto values = GoldenNumbers(golden.at("params").at(p.name), p.name);
    ASSERT_EQ(static_cast<int64_t>(values.size()), p.size()) << p.name;
    std::copy(values.begin(), values.end(), weights.begin() + p.offset);
  }
  const auto tokens = Ids(golden.at("input"), "input");
  const auto targets = Ids(golden.at("target"), "target");
  auto slot = stage.NewSlot();
  stage.Forward(weights.data(), {.tokens = tokens, .targets = targets},
                slot.get());

  const double loss = golden.at("loss");
  EXPECT_NEAR(stage.loss(*slot), loss, tolerance * std::abs(loss));
  EXPECT_LE(RelativeError(stage.logits(*slot),
                          GoldenNumbers(golden.at("logits"), "logits")),
            tolerance);

  std::vector<T> grads(table.size());
  stage.Backward(weights.data(), nullptr, 1.0, slot.get(), grads.data(),
                 nullptr);
  for (const Param& p : table.params()) {
    const auto want = GoldenNumbers(golden.at("grads").at(p.name), p.name);
    ASSERT_EQ(static_cast<int64_t>(want.size()), p.size()) << p.name;
    EXPECT_LE(RelativeError(grads.data() + p.offset, want), tolerance)
        << p.name;
  }
}

TEST(ModelGoldenTest, EveryFile) {
  const auto files = GoldenFilesOfKind({"model"});
  int built = 0;
  for (const GoldenFile& file : files) {
    SCOPED_TRACE(file.name);
    try {
      if (!IsBuilt(*file.json)) {
        std::cout << "  " << file.name << ": not built ("
                  << file.json->at("arch") << ")\n";
        continue;
      }
      ++built;
      RunModel<double>(*file.json, 1e-10);
      RunModel<float>(*file.json, 2e-5);
    } catch (const std::exception& e) {
      ADD_FAILURE() << file.name << ": malformed: " << e.what();
    }
  }
  std::cout << built << " of " << files.size() << " files ran\n";
  if (files.empty()) GTEST_SKIP() << "no golden files in " << GoldenFolder();
}

}  // namespace
}  // namespace gimbal::testing
