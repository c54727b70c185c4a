#include <bit>
#include <cstring>

#include "tests/cuda_host/include/gimbal_warp_matrices.h"

namespace gimbal::cuda_host {
namespace {

struct Product {
  float* sum;
  const uint32_t* left;
  const uint32_t* right;
};

struct MatrixRow {
  uint32_t* to;
  const char* row;
};

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

// Of lane 4 g + t: rows g and g + 8 or columns g, and what 2 t leads to.
void Multiply(void* const* lanes) {
  constexpr int kRows = 16, kCols = 8, kInner = 16;
  float left[kRows][kInner], right[kInner][kCols], sum[kRows][kCols];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& from = *static_cast<const Product*>(lanes[lane]);
    const int g = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      float* const at = &left[g + i % 2 * 8][pair + i / 2 * 8];
      at[0] = Low(from.left[i]);
      at[1] = High(from.left[i]);
      sum[g + i / 2 * 8][pair + i % 2] = from.sum[i];
    }
    for (int i = 0; i < 2; ++i) {
      right[pair + 8 * i][g] = Low(from.right[i]);
      right[pair + 8 * i + 1][g] = High(from.right[i]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kInner; ++k) {
      for (int col = 0; col < kCols; ++col) {
        sum[row][col] += left[row][k] * right[k][col];
      }
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& to = *static_cast<const Product*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      to.sum[i] = sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
  }
}

template <bool transposed>
void Load(void* const* lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& to = *static_cast<const MatrixRow*>(lanes[lane]);
    const int g = lane / 4, pair = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint16_t numbers[2];
      for (int i = 0; i < 2; ++i) {
        const int row = transposed ? pair + i : g;
        const int col = transposed ? g : pair + i;
        const auto& from =
            *static_cast<const MatrixRow*>(lanes[8 * matrix + row]);
        std::memcpy(&numbers[i], from.row + 2 * col, 2);
      }
      to.to[matrix] = numbers[0] | static_cast<uint32_t>(numbers[1]) << 16;
    }
  }
}

}  // namespace

void MultiplyAdd(float* sum, const uint32_t* left, const uint32_t* right) {
  Product mine = {sum, left, right};
  WarpTogether(Multiply, &mine);
}

void LoadMatrices(uint32_t* to, const void* row, bool transposed) {
  CheckShared(row, 16);
  MatrixRow mine = {to, static_cast<const char*>(row)};
  WarpTogether(transposed ? Load<true> : Load<false>, &mine);
}

}  // namespace gimbal::cuda_host
