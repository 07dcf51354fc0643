// A small matrix product, for the edge features of mlp.cpp.
#pragma once

#include "scalar.h"

namespace gattn::GATTN_ISA {

// to[m][f] += sum over k of left[m * row + k * step] right[k][f], m < rows, k < depth, f < width.
void multiply_add(float* to, const float* left, i64 row, i64 step, const float* right, i64 rows,
                  i64 depth, i64 width);
void multiply_add(double* to, const double* left, i64 row, i64 step, const double* right, i64 rows,
                  i64 depth, i64 width);

}  // namespace gattn::GATTN_ISA
