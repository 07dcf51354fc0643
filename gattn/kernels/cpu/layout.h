// Layout-building: three stable counting sorts, linear in nodes and edges.
#pragma once

#include <cstdint>
#include <vector>

namespace gattn {

using i64 = std::int64_t;

// Stable counting sort of positions 0 .. e by key: ptr [size + 1] and the order [e].
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

template <class Source, class I> void build_layout(const Source* source, const Source* destination,
                                                   i64 e, i64 m, i64 n, I* rowptr, I* col, I* perm,
                                                   I* colptr, I* row, I* csr2csc) {
  std::vector<I> by_source(e);
  counting_sort<I>(
      e, m, [&](i64 k) { return i64(source[k]); }, [](i64 k) { return k; }, colptr,
      by_source.data());
  counting_sort<I>(
      e, n, [&](i64 k) { return i64(destination[k]); }, [&](i64 k) { return i64(by_source[k]); },
      rowptr, perm);
  for (i64 k = 0; k < e; ++k) col[k] = I(source[perm[k]]);
  std::vector<I> next(colptr, colptr + m);
  for (i64 i = 0; i < n; ++i)
    for (i64 k = rowptr[i]; k < i64(rowptr[i + 1]); ++k) {
      const I at = next[col[k]]++;
      row[at] = I(i);
      csr2csc[at] = I(k);
    }
}

}  // namespace gattn
