// A small matrix product, for the features of edges.
#pragma once

#include "scalar.h"

namespace gattn::GATTN_ISA {

// Number of rows that are collected before their products are added: a sum over all edges is as
// large as many rows, and is then read and written once for all collected rows.
constexpr i64 most_waiting = 16;

// to[m][f] += sum over k of left[m * row + k * step] right[k * stride + f],
// m < rows, k < depth, f < width.
void multiply_add(float* to, const float* left, i64 row, i64 step, const float* right, i64 rows,
                  i64 depth, i64 width, i64 stride);
void multiply_add(double* to, const double* left, i64 row, i64 step, const double* right, i64 rows,
                  i64 depth, i64 width, i64 stride);

}  // namespace gattn::GATTN_ISA
