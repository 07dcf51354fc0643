// The types in this file are the index arrays of a layout (the sorted edges of a graph), which
// contain 32-bit or 64-bit indices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "args.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

// This index type is used in loops that are compiled once for both widths of indices. Each read
// checks the width.
struct AnyIndex {};

// This type is an index array whose width is known only at run time.
struct AnyIndices {
  const void* data = nullptr;
  bool is_int64 = false;

  i64 operator[](i64 k) const {
    return is_int64 ? static_cast<const i64*>(data)[k] : static_cast<const std::int32_t*>(data)[k];
  }
};

template <class I> using Indices =
    std::conditional_t<std::is_same_v<I, AnyIndex>, AnyIndices, const I*>;

template <class I> Indices<I> indices_of(const void* data, [[maybe_unused]] bool is_int64) {
  if constexpr (std::is_same_v<I, AnyIndex>)
    return {data, is_int64};
  else
    return static_cast<const I*>(data);
}

inline void prefetch_index(const std::int32_t* indices, i64 k) { __builtin_prefetch(indices + k); }
inline void prefetch_index(const AnyIndices& indices, i64 k) {
  __builtin_prefetch(static_cast<const char*>(indices.data) + k * (indices.is_int64 ? 8 : 4));
}

// This struct is the layout in the arguments of a kernel, with the index type as template
// parameter.
template <class I> struct Edges {
  Indices<I> rowptr, col, perm, colptr, row, csr2csc;
  i64 n, m, e;
  // If this is true, tables of node features usually exceed the second level of the cache.
  bool is_large;

  template <class Args> explicit Edges(const Args& a)
      : rowptr(indices_of<I>(a.rowptr, a.is_int64)),
        col(indices_of<I>(a.col, a.is_int64)),
        perm(indices_of<I>(a.perm, a.is_int64)),
        colptr(indices_of<I>(a.colptr, a.is_int64)),
        row(indices_of<I>(a.row, a.is_int64)),
        csr2csc(indices_of<I>(a.csr2csc, a.is_int64)),
        n(a.n),
        m(a.m),
        e(a.e),
        is_large(a.n + a.m > 1 << 16) {}
};

}  // namespace gattn::GATTN_ISA
