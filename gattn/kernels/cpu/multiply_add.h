// This file declares the product of small matrices, for the features of edges and for molecules.
#pragma once

#include "scalar.h"

namespace gattn::GATTN_ISA {

// Number of rows that are collected before their products are added to a sum over all edges. The
// sum is much larger than a row, so collecting rows saves reads and writes of the sum.
constexpr i64 max_pending = 16;

// Compute to[m * to_stride + f] += sum over k of left[m * row + k * step] right[k * stride + f],
// for m < rows, k < depth and f < width. The stride of `to` is the width if it is 0.
void multiply_add(float* to, const float* left, i64 row, i64 step, const float* right, i64 rows,
                  i64 depth, i64 width, i64 stride, i64 to_stride = 0);
void multiply_add(double* to, const double* left, i64 row, i64 step, const double* right, i64 rows,
                  i64 depth, i64 width, i64 stride, i64 to_stride = 0);

}  // namespace gattn::GATTN_ISA
