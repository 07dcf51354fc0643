// A small matrix product whose sums stay in registers.
#include "multiply_add.h"

#include "row_ops.h"

namespace gattn::GATTN_ISA {

namespace {

// Columns of multiply_add as many as stay in registers for four rows at a time.
template <int broad, class A>
void multiply_add_columns(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                          const A* __restrict right, i64 rows, i64 depth, i64 width) {
  constexpr int tall = 4;
  i64 m = 0;
  for (; m + tall <= rows; m += tall) {
    A sum[tall][broad];
#pragma GCC unroll 4
    for (int u = 0; u < tall; ++u) load(sum[u], to + (m + u) * width, broad);
    for (i64 d = 0; d < depth; ++d) {
      const A *factor = left + m * row + d * step, *from = right + d * width;
#pragma GCC unroll 4
      for (int u = 0; u < tall; ++u) axpy<broad>(sum[u], factor[u * row], from, broad);
    }
#pragma GCC unroll 4
    for (int u = 0; u < tall; ++u) load(to + (m + u) * width, sum[u], broad);
  }
  for (; m < rows; ++m)
    for (i64 d = 0; d < depth; ++d)
      axpy<broad>(to + m * width, left[m * row + d * step], right + d * width, broad);
}

template <class A> void multiply_add_all(A* __restrict to, const A* __restrict left, i64 row,
                                         i64 step, const A* __restrict right, i64 rows, i64 depth,
                                         i64 width) {
  constexpr int broad = sizeof(A) == 4 ? 64 : 32, slim = 16;
  i64 f = 0;
  for (; f + broad <= width; f += broad)
    multiply_add_columns<broad>(to + f, left, row, step, right + f, rows, depth, width);
  for (; f + slim <= width; f += slim)
    multiply_add_columns<slim>(to + f, left, row, step, right + f, rows, depth, width);
  if (f == width) return;
  for (i64 m = 0; m < rows; ++m)
    for (i64 d = 0; d < depth; ++d)
      axpy<0>(to + m * width + f, left[m * row + d * step], right + d * width + f, width - f);
}

}  // namespace

void multiply_add(float* to, const float* left, i64 row, i64 step, const float* right, i64 rows,
                  i64 depth, i64 width) {
  multiply_add_all(to, left, row, step, right, rows, depth, width);
}
void multiply_add(double* to, const double* left, i64 row, i64 step, const double* right, i64 rows,
                  i64 depth, i64 width) {
  multiply_add_all(to, left, row, step, right, rows, depth, width);
}

}  // namespace gattn::GATTN_ISA
