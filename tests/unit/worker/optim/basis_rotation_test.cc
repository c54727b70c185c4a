#include "worker/optim/basis_rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/unit/worker/optim/optim_test_util.h"
#include "tests/unit/worker/optim/rotation_reference.h"
#include "worker/optim/adamw.h"

namespace gimbal::worker {
namespace {

constexpr OptimizerSpec kSpec = {.kind = OptimizerKind::kBasisRotation};

template <typename T>
std::map<std::string, StateTensor<T>> StateByName(Optimizer<T>& optimizer) {
  std::map<std::string, StateTensor<T>> state;
  for (const auto& tensor : optimizer.State()) state[tensor.name] = tensor;
  return state;
}

PlainMatrix Slice(const Param& p, const std::vector<double>& arena) {
  PlainMatrix a(p.rows, p.cols);
  std::copy_n(arena.begin() + p.offset, p.size(), a.data.begin());
  return a;
}

// A basis of the optimizer's state with the vectors as columns.
PlainMatrix Columns(const StateTensor<double>& basis) {
  PlainMatrix a(basis.rows, basis.cols);
  std::copy_n(basis.data, basis.rows * basis.cols, a.data.begin());
  return Transposed(a);
}

// Largest deviation of the rows' inner products from the identity.
template <typename T>
double OrthogonalityError(const StateTensor<T>& basis) {
  double worst = 0;
  for (int64_t i = 0; i < basis.rows; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (int64_t k = 0; k < basis.cols; ++k) {
        dot += double{basis.data[i * basis.cols + k]} *
               basis.data[j * basis.cols + k];
      }
      worst = std::max(worst, std::abs(dot - (i == j ? 1.0 : 0.0)));
    }
  }
  return worst;
}

template <typename T>
bool AllFinite(const std::vector<T>& x) {
  for (T value : x) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Every matrix of a stage against the plain reference. The larger side of a
// matrix that is not square has a degenerate cold start (its covariance has the
// rank of the smaller one), where bases are a matter of taste: the reference
// takes over ours, after a check that they do diagonalise the gradient. The eps
// keeps rounding noise off that diagonal from being blown up.
void CompareWithReference(OptimizerSpec spec, int hidden, int mlp_hidden) {
  spec.kind = OptimizerKind::kBasisRotation;
  spec.eps = 1e-5;
  const ParameterTable table = SmallTable(hidden, mlp_hidden);
  Optimizer<double> optimizer(spec, table);
  auto weights = RandomWeights<double>(table);
  std::map<std::string, RotationReference> references;
  for (const Param& p : table.params()) {
    if (p.group != ParamGroup::kMatrix) continue;
    const RotatedSides sides = SidesToRotate(spec.rotation, p);
    references.emplace(p.name, RotationReference(spec, sides.left, sides.right,
                                                 Slice(p, weights)));
  }
  ASSERT_EQ(references.size(), 6u);
  for (int t = 1; t <= 30; ++t) {
    const StepContext<double> context{
        .update = t, .lr = 0.01, .refresh = t % 6 == 0, .scale = 0.5 + 0.5 / t};
    const auto grads = RandomGradient<double>(table, t);
    optimizer.Step(context, weights.data(), grads.data(), weights.data());
    const auto state = StateByName(optimizer);
    for (auto& [name, reference] : references) {
      const Param& p = table.at(name);
      const RotatedSides sides = SidesToRotate(spec.rotation, p);
      const PlainMatrix gradient = Slice(p, grads);
      reference.Step(context, gradient);
      if (t == 1 && sides.left && sides.right) {
        const PlainMatrix u = Columns(state.at(name + ".U"));
        const PlainMatrix v = Columns(state.at(name + ".V"));
        const PlainMatrix s = Product(Product(Transposed(u), gradient), v);
        for (int64_t i = 0; i < p.rows; ++i) {
          for (int64_t j = 0; j < p.cols; ++j) {
            if (i == j) continue;
            ASSERT_NEAR(s(i, j), 0, 1e-12);
          }
        }
        reference.left_basis = u;
        reference.right_basis = v;
      }
      for (int64_t i = 0; i < p.size(); ++i) {
        ASSERT_NEAR(weights[p.offset + i], reference.weight.data[i], 1e-9)
            << name << ", update " << t << ", entry " << i;
      }
    }
  }
}

TEST(BasisRotation, EqualsThePlainReferenceOnSquareMatrices) {
  CompareWithReference({}, 8, 8);
}

TEST(BasisRotation, EqualsThePlainReferenceOnTallAndWideMatrices) {
  CompareWithReference({}, 8, 12);
  CompareWithReference({}, 6, 3);
}

TEST(BasisRotation, EqualsThePlainReferenceOnRowsAndColumns) {
  CompareWithReference({}, 1, 5);
}

TEST(BasisRotation, LookAheadEqualsThePlainReference) {
  CompareWithReference({.nesterov = true, .beta1 = 0.99}, 8, 12);
}

TEST(BasisRotation, FirstMomentEqualsThePlainReference) {
  CompareWithReference({.rotation = {.source = RotationSource::kFirst}}, 8, 8);
}

TEST(BasisRotation, OneSideEqualsThePlainReference) {
  for (const RotationSource source :
       {RotationSource::kSecond, RotationSource::kFirst}) {
    const RotationSpec one_side{.source = source,
                                .geometry = RotationGeometry::kUnilateral};
    CompareWithReference({.rotation = one_side}, 8, 8);
    CompareWithReference({.rotation = one_side}, 8, 12);
    CompareWithReference({.rotation = one_side}, 6, 3);
    // A side beyond max_dim is not rotated; attention stays bilateral.
    if (source == RotationSource::kSecond) {
      CompareWithReference({.rotation = {.source = source, .max_dim = 8}}, 8,
                           12);
    }
  }
}

TEST(BasisRotation, EverythingButTheMatricesIsAdamW) {
  const ParameterTable table = SmallTable(4, 6);
  Optimizer<float> rotation(kSpec, table);
  Optimizer<float> adamw({.kind = OptimizerKind::kAdamW}, table);
  auto rotated = RandomWeights<float>(table), plain = rotated;
  for (int t = 1; t <= 6; ++t) {
    const auto grads = RandomGradient<float>(table, t);
    const StepContext<float> context{
        .update = t, .lr = 0.01, .refresh = t % 3 == 0, .scale = 0.5};
    rotation.Step(context, rotated.data(), grads.data(), rotated.data());
    adamw.Step(context, plain.data(), grads.data(), plain.data());
  }
  for (const Param& p : table.params()) {
    EXPECT_EQ(std::equal(rotated.begin() + p.offset,
                         rotated.begin() + p.offset + p.size(),
                         plain.begin() + p.offset),
              p.group != ParamGroup::kMatrix)
        << p.name;
  }
}

TEST(BasisRotation, BasesStayOrthonormal) {
  const ParameterTable table = SmallTable(32, 96);
  Optimizer<float> optimizer(kSpec, table);
  auto weights = RandomWeights<float>(table);
  for (int t = 1; t <= 500; ++t) {
    const auto grads = RandomGradient<float>(table, t);
    optimizer.Step({.update = t, .lr = 1e-3, .refresh = t % 10 == 0},
                   weights.data(), grads.data(), weights.data());
  }
  for (const auto& [name, tensor] : StateByName(optimizer)) {
    if (name.ends_with(".U") || name.ends_with(".V")) {
      EXPECT_LT(OrthogonalityError(tensor), 1e-5) << name;
    }
  }
  EXPECT_TRUE(AllFinite(weights));
}

// Gradients of rank 0 and 1, from the cold start on.
TEST(BasisRotation, DeficientGradientsStayFinite) {
  for (int mlp_hidden : {1, 5, 24}) {
    const ParameterTable table = SmallTable(8, mlp_hidden);
    Optimizer<float> optimizer(kSpec, table);
    auto weights = RandomWeights<float>(table);
    for (int t = 1; t <= 40; ++t) {
      auto grads = RandomGradient<float>(table, 1);
      for (const Param& p : table.params()) {
        for (int64_t i = 0; i < p.size(); ++i) {
          // One row only, and nothing at all at first.
          if (t < 6 || i / p.cols != t % p.rows) grads[p.offset + i] = 0;
        }
      }
      optimizer.Step({.update = t, .lr = 1e-3, .refresh = t % 4 == 0},
                     weights.data(), grads.data(), weights.data());
      ASSERT_TRUE(AllFinite(weights)) << "update " << t;
    }
    for (const auto& [name, tensor] : StateByName(optimizer)) {
      if (name.ends_with(".U") || name.ends_with(".V")) {
        EXPECT_LT(OrthogonalityError(tensor), 1e-5) << name;
      }
    }
  }
}

TEST(BasisRotation, AGradientThatIsNotFiniteLeavesTheBasesValid) {
  const ParameterTable table = SmallTable(8, 12);
  Optimizer<float> optimizer(kSpec, table);
  auto weights = RandomWeights<float>(table);
  for (int t = 1; t <= 8; ++t) {
    auto grads = RandomGradient<float>(table, t);
    if (t == 3) grads[table.at("h.0.mlp.fc.weight").offset] = NAN;
    optimizer.Step({.update = t, .lr = 1e-3, .refresh = t % 4 == 0},
                   weights.data(), grads.data(), weights.data());
  }
  for (const auto& [name, tensor] : StateByName(optimizer)) {
    if (name.ends_with(".U") || name.ends_with(".V")) {
      EXPECT_LT(OrthogonalityError(tensor), 1e-5) << name;
    }
  }
}

TEST(BasisRotation, StateNamesEachTensorOfAMatrix) {
  const ParameterTable table = SmallTable(4, 6);
  Optimizer<float> optimizer(kSpec, table);
  const auto state = StateByName(optimizer);
  EXPECT_EQ(state.size(), optimizer.State().size()) << "a name twice";
  const auto shape = [&](const std::string& suffix) {
    const auto& tensor = state.at("h.0.mlp.fc.weight" + suffix);
    return std::pair(tensor.rows, tensor.cols);
  };
  for (const char* suffix : {".m", ".v"}) {
    EXPECT_EQ(shape(suffix), std::pair(int64_t{6}, int64_t{4}));
  }
  for (const char* suffix : {".L", ".U"}) {
    EXPECT_EQ(shape(suffix), std::pair(int64_t{6}, int64_t{6}));
  }
  for (const char* suffix : {".R", ".V"}) {
    EXPECT_EQ(shape(suffix), std::pair(int64_t{4}, int64_t{4}));
  }
  EXPECT_EQ(state.count("wte.L"), 0u);
  EXPECT_EQ(state.count("h.0.attn.k.weight.V"), 1u);
}

}  // namespace
}  // namespace gimbal::worker
