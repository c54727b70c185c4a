// Optimizers against sequences of weights from other implementations. Rotation
// is compared as the golden files ask for: at step 1 the rotated gradient is
// exactly diagonal, and the rounding noise off the diagonal is blown up to the
// size of lr, so fp32 weights agree only with a larger eps, and fp32 update
// vectors only from step 2 on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/golden/golden_files.h"
#include "worker/model/parameter_table.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {
namespace {

using nlohmann::json;
using testing::GoldenFile;
using testing::GoldenFilesOfKind;
using testing::GoldenNumbers;

// One inner vector per step.
using Sequence = std::vector<std::vector<double>>;

struct Hyper {
  OptimizerSpec spec;
  double lr = 0;
};

Hyper ReadHyper(const json& hyper, OptimizerKind kind) {
  return {.spec = {.kind = kind,
                   .nesterov = hyper.contains("momentum_decay"),
                   .beta1 = hyper.at("betas").at(0),
                   .beta2 = hyper.at("betas").at(1),
                   .eps = hyper.at("eps"),
                   .weight_decay = hyper.at("weight_decay")},
          .lr = hyper.at("lr")};
}

// The feature of the file that is not built, or empty.
std::string Unbuilt(const json& file) {
  if (file.at("kind") == "optimizer") {
    const json& desc = file.at("desc");
    const std::string cls = desc.at("cls");
    if (cls == "torch.optim.AdamW") return "";
    if (cls != "torch.optim.NAdam") return cls;
    if (desc.at("momentum_decay") != 0.004) return "another momentum decay";
    if (desc.at("weight_decay") != 0.0 &&
        !desc.value("decoupled_weight_decay", false)) {
      return "coupled weight decay";
    }
    return "";
  }
  const json& hyper = file.at("hyper");
  const std::string source = hyper.at("approx_source");
  const std::string geometry = hyper.at("rotation_geometry");
  if (hyper.value("shampoo_beta", -1.0) >= 0) return "covariance beta";
  if (source == "1st" && geometry == "uni") {
    return "the released class's first/unilateral, which is no power step";
  }
  return "";
}

Sequence ReadSequence(const json& file, const std::string& key) {
  Sequence sequence;
  for (const json& step : file.at(key)) {
    sequence.push_back(GoldenNumbers(step, key));
  }
  return sequence;
}

// Weights after every step of an optimizer of ours on the file's gradients. The
// matrix is the first of an MLP, which may have any shape.
template <typename T>
Sequence Run(const json& file, const Hyper& hyper) {
  const int rows = file.at("shape").at(0), cols = file.at("shape").at(1);
  const ParameterTable table = ParameterTable::ForStage(
      {.model = {.layers = 1, .hidden = cols, .heads = 1, .mlp_hidden = rows},
       .blocks = 1});
  const int64_t offset = table.at("h.0.mlp.fc.weight").offset;
  std::vector<T> weights(table.size()), grads(table.size());
  const auto initial = GoldenNumbers(file.at("initial_weight"), "weight");
  std::copy(initial.begin(), initial.end(), weights.begin() + offset);

  Optimizer<T> optimizer(hyper.spec, table);
  Sequence result;
  const Sequence gradients = ReadSequence(file, "gradients");
  for (size_t i = 0; i < gradients.size(); ++i) {
    std::copy(gradients[i].begin(), gradients[i].end(), grads.begin() + offset);
    const bool refresh = file.contains("basis_refreshed") &&
                         file.at("basis_refreshed").at(i) == 1;
    optimizer.Step({.update = static_cast<int64_t>(i) + 1,
                    .lr = hyper.lr,
                    .refresh = refresh},
                   weights.data(), grads.data(), weights.data());
    const auto begin = weights.begin() + offset;
    result.emplace_back(begin, begin + int64_t{rows} * cols);
  }
  return result;
}

Sequence Updates(const Sequence& weights) {
  Sequence updates;
  for (size_t t = 1; t < weights.size(); ++t) {
    updates.push_back(weights[t]);
    for (size_t i = 0; i < weights[t].size(); ++i) {
      updates.back()[i] -= weights[t - 1][i];
    }
  }
  return updates;
}

void ExpectClose(const std::string& what, const Sequence& ours,
                 const Sequence& expected, double tolerance) {
  ASSERT_EQ(ours.size(), expected.size()) << what;
  double worst = 0;
  for (size_t t = 0; t < ours.size(); ++t) {
    ASSERT_EQ(ours[t].size(), expected[t].size()) << what;
    for (size_t i = 0; i < ours[t].size(); ++i) {
      const double error = std::abs(ours[t][i] - expected[t][i]);
      ASSERT_LE(error, tolerance) << what << ", entry " << t << ", " << i;
      worst = std::max(worst, error);
    }
  }
  std::cout << "  " << what << ": largest deviation " << worst << " of "
            << tolerance << std::endl;
}

void CompareAdamW(const json& file) {
  const Hyper hyper = ReadHyper(file.at("desc"), OptimizerKind::kAdamW);
  const Sequence expected = ReadSequence(file, "weights_after_step");
  ExpectClose("weights in float", Run<float>(file, hyper), expected, 2e-6);
  ExpectClose("weights in double", Run<double>(file, hyper), expected, 2e-6);
}

// NAdam written down plainly, in double precision. PyTorch before 2.0 had mu_t
// once too often in the product up to t + 1; with `as_torch_1` so does this.
Sequence PlainNAdam(const json& file, const Hyper& hyper, bool as_torch_1) {
  std::vector<double> w = GoldenNumbers(file.at("initial_weight"), "weight");
  std::vector<double> m(w.size()), v(w.size());
  const auto mu = [&](double t) {
    return hyper.spec.beta1 * (1 - 0.5 * std::pow(0.96, 0.004 * t));
  };
  Sequence result;
  double product = 1, t = 0;
  for (const std::vector<double>& gradient : ReadSequence(file, "gradients")) {
    product *= mu(++t);
    const double next = product * mu(t + 1) * (as_torch_1 ? mu(t) : 1);
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i];
      m[i] = hyper.spec.beta1 * m[i] + (1 - hyper.spec.beta1) * g;
      v[i] = hyper.spec.beta2 * v[i] + (1 - hyper.spec.beta2) * g * g;
      const double root =
          std::sqrt(v[i] / (1 - std::pow(hyper.spec.beta2, t))) +
          hyper.spec.eps;
      w[i] *= 1 - hyper.lr * hyper.spec.weight_decay;
      w[i] -= hyper.lr / root * (1 - mu(t)) / (1 - product) * g;
      w[i] -= hyper.lr / root * mu(t + 1) / (1 - next) * m[i];
    }
    result.push_back(w);
  }
  return result;
}

// The file proves the plain program, the plain program proves ours.
void CompareNAdam(const json& file) {
  const Hyper hyper = ReadHyper(file.at("desc"), OptimizerKind::kAdamW);
  const bool torch_1 = file.at("torch").get<std::string>().starts_with("1.");
  ExpectClose("plain program", PlainNAdam(file, hyper, torch_1),
              ReadSequence(file, "weights_after_step"), 2e-6);
  const Sequence expected = PlainNAdam(file, hyper, false);
  ExpectClose("weights in float", Run<float>(file, hyper), expected, 2e-6);
  ExpectClose("weights in double", Run<double>(file, hyper), expected, 2e-6);
}

void CompareRotation(const json& file) {
  Hyper hyper = ReadHyper(file.at("hyper"), OptimizerKind::kBasisRotation);
  RotationSpec& rotation = hyper.spec.rotation;
  if (file.at("hyper").at("approx_source") == "1st") {
    rotation.source = RotationSource::kFirst;
  }
  if (file.at("hyper").at("rotation_geometry") == "uni") {
    rotation.geometry = RotationGeometry::kUnilateral;
    const Sequence expected = ReadSequence(file, "weights_after_step");
    ExpectClose("weights in float", Run<float>(file, hyper), expected, 2e-4);
    ExpectClose("weights in double", Run<double>(file, hyper), expected, 2e-4);
    return;
  }
  ExpectClose("weights in double", Run<double>(file, hyper),
              ReadSequence(file, "weights_after_step_float64"), 1e-6);
  ExpectClose("updates in float", Updates(Run<float>(file, hyper)),
              Updates(ReadSequence(file, "weights_after_step")), 2e-5);
  hyper.spec.eps = 1e-5;
  ExpectClose("weights in float, eps 1e-5", Run<float>(file, hyper),
              ReadSequence(file, "weights_after_step_eps1e-5"), 2e-4);
}

TEST(OptimizerGolden, EveryFile) {
  int compared = 0;
  for (const GoldenFile& file :
       GoldenFilesOfKind({"optimizer", "basis_rotation"})) {
    SCOPED_TRACE(file.name);
    const std::string unbuilt = Unbuilt(*file.json);
    if (!unbuilt.empty()) {
      std::cout << file.name << ": not built: " << unbuilt << std::endl;
      continue;
    }
    std::cout << file.name << std::endl;
    if (file.json->at("kind") != "optimizer") {
      CompareRotation(*file.json);
    } else if (file.json->at("desc").at("cls") == "torch.optim.NAdam") {
      CompareNAdam(*file.json);
    } else {
      CompareAdamW(*file.json);
    }
    ++compared;
  }
  if (compared == 0) {
    GTEST_SKIP() << "no golden file of an optimizer in "
                 << testing::GoldenFolder();
  }
}

}  // namespace
}  // namespace gimbal::worker
