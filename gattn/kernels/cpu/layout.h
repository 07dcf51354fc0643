// The functions in this file build a layout by three stable counting sorts. The time is linear in
// the numbers of nodes and edges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gattn {

using i64 = std::int64_t;

// Sort the positions 0 to e - 1 by key, with a stable counting sort. Write the offset of each key
// to ptr, [size + 1], and the sorted positions to order, [e].
template <class I, class Key, class Item>
void counting_sort(i64 e, i64 size, const Key& key, const Item& item, I* ptr, I* order) {
  std::vector<I> next(size + 1, 0);
  for (i64 k = 0; k < e; ++k) ++next[key(k) + 1];
  for (i64 i = 0; i < size; ++i) next[i + 1] += next[i];
  for (i64 i = 0; i <= size; ++i) ptr[i] = next[i];
  for (i64 k = 0; k < e; ++k) {
    const i64 at = item(k);
    order[next[key(at)]++] = I(at);
  }
}

// Convert CSR to CSC. The column offsets must already be computed. The edges of each column are in
// the order of the rows.
template <class I> void fill_columns(const I* rowptr, const I* col, const I* colptr, i64 m, i64 n,
                                     I* row, I* csr2csc) {
  std::vector<I> next(colptr, colptr + m);
  for (i64 i = 0; i < n; ++i)
    for (i64 k = rowptr[i]; k < i64(rowptr[i + 1]); ++k) {
      const I at = next[col[k]]++;
      row[at] = I(i);
      csr2csc[at] = I(k);
    }
}

// Convert CSR to CSC, and compute the column offsets colptr, [m + 1].
template <class I>
void build_columns(const I* rowptr, const I* col, i64 m, i64 n, I* colptr, I* row, I* csr2csc) {
  std::fill(colptr, colptr + m + 1, I(0));
  for (i64 k = 0; k < i64(rowptr[n]); ++k) ++colptr[i64(col[k]) + 1];
  for (i64 j = 0; j < m; ++j) colptr[j + 1] += colptr[j];
  fill_columns(rowptr, col, colptr, m, n, row, csr2csc);
}

// Build the layout of edges. Return false if an index is negative or not below its size. Every
// index is read exactly once, so that a concurrent write cannot cause an invalid access.
// Intermediate values are stored in outputs that are written last, so that no scratch memory of the
// size of the edges is needed.
template <class Source, class I> bool build_layout(const Source* source, const Source* destination,
                                                   i64 e, i64 m, i64 n, I* rowptr, I* col, I* perm,
                                                   I* colptr, I* row, I* csr2csc) {
  I *from = row, *to = csr2csc, *by_source = col;
  bool within = true;
  for (i64 k = 0; k < e; ++k) {
    const i64 j = source[k], i = destination[k];
    within &= 0 <= j && j < m && 0 <= i && i < n;
    from[k] = I(j), to[k] = I(i);
  }
  if (!within) return false;
  counting_sort<I>(
      e, m, [&](i64 k) { return i64(from[k]); }, [](i64 k) { return k; }, colptr, by_source);
  counting_sort<I>(
      e, n, [&](i64 k) { return i64(to[k]); }, [&](i64 k) { return i64(by_source[k]); }, rowptr,
      perm);
  for (i64 k = 0; k < e; ++k) col[k] = from[perm[k]];
  fill_columns(rowptr, col, colptr, m, n, row, csr2csc);
  return true;
}

}  // namespace gattn
