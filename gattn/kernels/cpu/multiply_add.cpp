// This file multiplies small matrices whose sums stay in registers.
#include "multiply_add.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "row_ops.h"

namespace gattn::GATTN_ISA {

namespace {

// The sums of a tile fill most of the vector registers: 4 x 4 of 32 registers of 64 bytes,
// otherwise 6 x 2 of 16 registers. A tile of other registers is written to memory after each step.
constexpr int tile_rows = register_bytes == 64 ? 4 : 6;
constexpr int tile_bytes = (register_bytes == 64 ? 4 : 2) * register_bytes;
constexpr i64 line_bytes = 64;  // bytes of a cache line, and of the widest register
// A panel has at most 32 KiB, so it stays in the first-level cache.
constexpr i64 panel_depth = 128;
constexpr i64 panel_rows = 16;  // with fewer rows, copying takes longer than it saves

// Compute a tile of height x tile_columns sums, which stay in registers.
template <int height, int tile_columns, class A>
GATTN_INLINE void multiply_add_tile(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                                    const A* __restrict right, i64 depth, i64 stride,
                                    i64 to_stride) {
  A sum[height][tile_columns];
#pragma GCC unroll 6
  for (int u = 0; u < height; ++u) load(sum[u], to + u * to_stride, tile_columns);
  for (i64 d = 0; d < depth; ++d) {
    const A *factor = left + d * step, *from = right + d * stride;
#pragma GCC unroll 6
    for (int u = 0; u < height; ++u)
      axpy<tile_columns>(sum[u], factor[u * row], from, tile_columns);
  }
#pragma GCC unroll 6
  for (int u = 0; u < height; ++u) load(to + u * to_stride, sum[u], tile_columns);
}

// Compute tile_columns columns of all rows. The rows that are left at the end are computed as a
// tile of this height. This case is common, because the nodes of molecules have few edges.
template <int tile_columns, class A>
void multiply_add_columns(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                          const A* __restrict right, i64 rows, i64 depth, i64 stride,
                          i64 to_stride) {
  const auto tile = [=]<int height>(std::integral_constant<int, height>, i64 m) {
    multiply_add_tile<height, tile_columns>(to + m * to_stride, left + m * row, row, step, right,
                                            depth, stride, to_stride);
  };
  i64 m = 0;
  for (; m + tile_rows <= rows; m += tile_rows) tile(std::integral_constant<int, tile_rows>(), m);
  switch (rows - m) {
    case 5: return tile(std::integral_constant<int, 5>(), m);
    case 4: return tile(std::integral_constant<int, 4>(), m);
    case 3: return tile(std::integral_constant<int, 3>(), m);
    case 2: return tile(std::integral_constant<int, 2>(), m);
    case 1: return tile(std::integral_constant<int, 1>(), m);
  }
}

// Compute tile_columns columns of all rows from a copy of these columns of `right`. Rows of
// `right` that begin in the middle of a cache line, or that are far apart and share few sets of the
// cache, take longer to read. The sums are computed in the same order as without a copy.
template <int tile_columns, class A>
void multiply_add_copied(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                         const A* __restrict right, i64 rows, i64 depth, i64 stride,
                         i64 to_stride) {
  alignas(line_bytes) A panel[panel_depth * tile_columns];
  for (i64 first = 0; first < depth; first += panel_depth) {
    const i64 count = std::min(panel_depth, depth - first);
    for (i64 d = 0; d < count; ++d)
      load(panel + d * tile_columns, right + (first + d) * stride, tile_columns);
    multiply_add_columns<tile_columns>(to, left + first * step, row, step, panel, rows, count,
                                       tile_columns, to_stride);
  }
}

template <class A> void multiply_add_all(A* __restrict to, const A* __restrict left, i64 row,
                                         i64 step, const A* __restrict right, i64 rows, i64 depth,
                                         i64 width, i64 stride, i64 to_stride) {
  i64 f = 0;
  const auto columns = [&]<int tile_columns>(std::integral_constant<int, tile_columns>) {
    const auto multiply = rows < panel_rows ? multiply_add_columns<tile_columns, A>
                                            : multiply_add_copied<tile_columns, A>;
    for (; f + tile_columns <= width; f += tile_columns)
      multiply(to + f, left, row, step, right + f, rows, depth, stride, to_stride);
  };
  columns(std::integral_constant<int, tile_bytes / sizeof(A)>());
  columns(std::integral_constant<int, 16>());
  columns(std::integral_constant<int, 8>());
  if (f == width) return;
  for (i64 m = 0; m < rows; ++m)
    for (i64 d = 0; d < depth; ++d)
      axpy<0>(to + m * to_stride + f, left[m * row + d * step], right + d * stride + f, width - f);
}

}  // namespace

void multiply_add(float* to, const float* left, i64 row, i64 step, const float* right, i64 rows,
                  i64 depth, i64 width, i64 stride, i64 to_stride) {
  multiply_add_all(to, left, row, step, right, rows, depth, width, stride,
                   to_stride ? to_stride : width);
}
void multiply_add(double* to, const double* left, i64 row, i64 step, const double* right, i64 rows,
                  i64 depth, i64 width, i64 stride, i64 to_stride) {
  multiply_add_all(to, left, row, step, right, rows, depth, width, stride,
                   to_stride ? to_stride : width);
}

}  // namespace gattn::GATTN_ISA
