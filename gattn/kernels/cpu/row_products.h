// This file declares dot products and weighted sums of rows [heads, channels], which most of the
// kernels on edges compute.
//
// Their loops are fast only if the number of channels is known at compile time. They are compiled
// for the common numbers of channels in one C++ file, and not in every kernel, because a kernel for
// each number of channels would multiply the compile time by seven. The functions process a block
// of edges, so that a call takes little time compared with its work.
#pragma once

#include "row_ops.h"

namespace gattn::GATTN_ISA {

// Compute the dot products of one row with `count` rows: to[t * stride + x] = <row_x, rows[t]_x>
// for each head x. Before the products with rows[t], the row ahead[t] is prefetched, unless `ahead`
// is null.
template <class T> void dot_rows(acc_t<T>* to, i64 stride, const acc_t<T>* row,
                                 const T* const* rows, const T* const* ahead, i64 count, i64 heads,
                                 i64 channels, bool is_large = false);

// Compute a weighted sum of rows: to_x += sum over t of weights[t][x] rows[t]_x for each head x. If
// is_first, the previous values of `to` are ignored. If the rows have fewer heads than the sum,
// head x reads head x % value_heads.
template <class T> void add_weighted_rows(acc_t<T>* to, bool is_first, i64 count, i64 heads,
                                          i64 value_heads, i64 channels,
                                          const acc_t<T>* const* weights, const T* const* rows);

// Multiply each head x of a row by factor[x].
template <class A> void scale_heads(A* to, const A* factor, i64 heads, i64 channels);

// Fill an array with pointers to rows of a matrix with this stride.
template <class A>
inline void point_to_rows(const A** rows, const A* first, i64 count, i64 stride) {
  for (i64 t = 0; t < count; ++t) rows[t] = first + t * stride;
}

}  // namespace gattn::GATTN_ISA
