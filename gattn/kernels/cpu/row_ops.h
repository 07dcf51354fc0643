// This file contains loops over the channels of one row. The template parameter C is the number of
// channels per head if it is known at compile time, otherwise 0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>

#include "scalar.h"

#define GATTN_INLINE [[gnu::always_inline]] inline

namespace gattn::GATTN_ISA {

// Return the number of channels, which is a constant if C is not 0.
template <int C> inline i64 width(i64 channels) { return C ? C : channels; }

template <class A, class T> inline void load(A* __restrict to, const T* __restrict from, i64 n) {
#pragma omp simd
  for (i64 k = 0; k < n; ++k) to[k] = wide(from[k]);
}

template <class T, class A> inline void store(T* __restrict to, const A* __restrict from, i64 n) {
#pragma omp simd
  for (i64 k = 0; k < n; ++k) to[k] = narrow<T>(from[k]);
}

template <class A> inline void fill(A* __restrict to, A value, i64 n) {
#pragma omp simd
  for (i64 k = 0; k < n; ++k) to[k] = value;
}

template <class A> inline void add(A* __restrict to, const A* __restrict from, i64 n) {
#pragma omp simd
  for (i64 k = 0; k < n; ++k) to[k] += from[k];
}

// Call step(k) for k < n, in vector code. If n is not a constant, the loop is divided into tiles of
// constant size. For short rows, the overhead of a loop of unknown length would exceed the cost of
// the computation.
template <int C, class Step> GATTN_INLINE void for_channels(i64 n, const Step& step) {
  if constexpr (C > 0) {
#pragma omp simd
    for (i64 k = 0; k < C; ++k) step(k);
  } else {
    i64 k = 0;
    const auto tile = [&]<int L>(std::integral_constant<int, L>) {
#pragma omp simd
      for (int u = 0; u < L; ++u) step(k + u);
      k += L;
    };
    while (k + 16 <= n) tile(std::integral_constant<int, 16>());
    if (n & 8) tile(std::integral_constant<int, 8>());
    if (n & 4) tile(std::integral_constant<int, 4>());
    for (; k < n; ++k) step(k);
  }
}

template <class A, int L> struct VectorOf {
  typedef A type __attribute__((vector_size(L * sizeof(A))));
};
template <class A, int L> using Vector = typename VectorOf<A, L>::type;

// Read L numbers of a row into a register, in which bf16 becomes fp32.
template <int L, std::floating_point A> GATTN_INLINE Vector<A, L> read_lanes(const A* from) {
  Vector<A, L> values;
  std::memcpy(&values, from, sizeof(values));
  return values;
}
template <int L> GATTN_INLINE Vector<float, L> read_lanes(const bf16* from) {
  Vector<std::uint16_t, L> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return Vector<float, L>(__builtin_convertvector(bits, Vector<std::uint32_t, L>) << 16);
}

// Sum the L numbers of a register: its halves are added until one number is left.
template <int L, class A> GATTN_INLINE A sum_of_lanes(const A* part) {
  if constexpr (L == 1) {
    return part[0];
  } else if constexpr (L == 2) {
    return part[0] + part[1];
  } else {
    const Vector<A, L / 2> sums = read_lanes<L / 2>(part) + read_lanes<L / 2>(part + L / 2);
    A half[L / 2];
    std::memcpy(half, &sums, sizeof(sums));
    return sum_of_lanes<L / 2>(half);
  }
}

// Return the sum of term(k) over k < n. If n is a constant, the partial sums in a vector are added
// at the end by sum_of_lanes. The compiler would add the lanes one after another, which is slower.
template <int C, class A, class Term> GATTN_INLINE A sum_of(i64 n, const Term& term) {
  if constexpr (C > 0) {
    constexpr int L = C * sizeof(A) < 64 ? C : 64 / sizeof(A);
    A part[L] = {};
#pragma GCC unroll 16
    for (int k = 0; k < C; k += L)
#pragma omp simd
      for (int u = 0; u < L; ++u) part[u] += term(k + u);
    return sum_of_lanes<L>(part);
  } else {
    constexpr i64 L = 8;
    if (n < L) {
      A sum = 0;
      for (i64 k = 0; k < n; ++k) sum += term(k);
      return sum;
    }
    A part[L] = {};
    i64 k = 0;
    for (; k + L <= n; k += L)
#pragma omp simd
      for (i64 u = 0; u < L; ++u) part[u] += term(k + u);
    A sum = sum_of_lanes<L>(part);
    for (; k < n; ++k) sum += term(k);
    return sum;
  }
}

template <int C, class A, class T>
GATTN_INLINE A dot(const A* __restrict a, const T* __restrict b, i64 channels) {
  return sum_of<C, A>(width<C>(channels), [=](i64 k) { return a[k] * wide(b[k]); });
}

// Add the row `from`, multiplied by the weight, to the row `to`.
template <int C, class A, class T>
GATTN_INLINE void axpy(A* __restrict to, A weight, const T* __restrict from, i64 channels) {
  for_channels<C>(channels, [=](i64 k) { to[k] += weight * wide(from[k]); });
}

// Call function.template operator()<D>(), where D is the number of edge features if it is a common
// one, otherwise 0.
template <class Function> GATTN_INLINE void with_features(i64 features, const Function& function) {
#ifdef GATTN_FIXED_CHANNELS
  switch (features) {
    case 8: return function.template operator()<8>();
    case 16: return function.template operator()<16>();
    case 32: return function.template operator()<32>();
  }
#endif
  function.template operator()<0>();
}

// Number of bytes of a vector register. The compiler would store wider vectors in memory.
#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

// Compute a weighted sum of rows: to_x += sum over t < count of weight(t)[x] times row(t) from
// offset(x) on, for each head x; `to` is [heads, c]. If is_first, the previous values of `to` are
// ignored. The sums of several heads are computed together; their number is limited by the number
// of registers. For fp32 and bf16, they are explicit vectors, because the compiler would store an
// array of vectors in memory.
template <int C, class T, class A, class Weight, class Row, class Offset>
GATTN_INLINE void add_rows(A* __restrict to, bool is_first, i64 count, i64 heads, i64 channels,
                           const Weight& weight, const Row& row, const Offset& offset) {
  i64 x = 0;
  if constexpr (C > 0 && has_fixed_channels<T>) {
    constexpr int L = std::min<int>(C, register_bytes / sizeof(float));
    // Number of vectors of one head that are summed together.
    constexpr int vectors = std::min(C / L, 8);
    using Lanes = Vector<float, L>;
    const auto sums = [&]<int H>(std::integral_constant<int, H>) {
      for (int k = 0; k < C; k += vectors * L) {
        Lanes sum[H * vectors] = {};
        if (!is_first) {
#pragma GCC unroll 8
          for (int u = 0; u < H * vectors; ++u)
            sum[u] = read_lanes<L>(to + (x + u / vectors) * C + k + u % vectors * L);
        }
        for (i64 t = 0; t < count; ++t) {
          const T* from = row(t) + k;
          const float* factor = weight(t) + x;
#pragma GCC unroll 8
          for (int u = 0; u < H * vectors; ++u)
            sum[u] += factor[u / vectors] *
                      read_lanes<L>(from + offset(x + u / vectors) + u % vectors * L);
        }
#pragma GCC unroll 8
        for (int u = 0; u < H * vectors; ++u)
          std::memcpy(to + (x + u / vectors) * C + k + u % vectors * L, &sum[u], sizeof(Lanes));
      }
      x += H;
    };
    constexpr int head_tile = 8 / vectors;
    while (x + head_tile <= heads) sums(std::integral_constant<int, head_tile>());
    if constexpr (head_tile > 1)
      while (x < heads) sums(std::integral_constant<int, 1>());
  } else if constexpr (C > 0 && C * sizeof(A) <= 512) {
    for (; x < heads; ++x) {
      A sum[C];
      for (int k = 0; k < C; ++k) sum[k] = is_first ? A(0) : to[x * C + k];
      for (i64 t = 0; t < count; ++t) {
        const T* from = row(t) + offset(x);
        const A factor = weight(t)[x];
#pragma omp simd
        for (int k = 0; k < C; ++k) sum[k] += factor * wide(from[k]);
      }
      for (int k = 0; k < C; ++k) to[x * C + k] = sum[k];
    }
  } else {
    const i64 c = width<C>(channels);
    if (is_first) fill(to, A(0), heads * c);
    for (i64 t = 0; t < count; ++t) {
      const T* from = row(t);
      const A* factor = weight(t);
      for (x = 0; x < heads; ++x) axpy<C>(to + x * c, factor[x], from + offset(x), c);
    }
  }
}

// Convert numbers to the accumulation type, and write them to `buffer`. If they already have this
// type, return `from` itself.
template <class T, class A> GATTN_INLINE const A* widened(A* buffer, const T* from, i64 n) {
  if constexpr (std::is_same_v<T, A>) {
    return from;
  } else {
    load(buffer, from, n);
    return buffer;
  }
}

// Add to to_x the sum over r of weight_x[r] matrix_x[r], for each head x. Shapes: to [heads, c],
// weight [heads, rows], matrix [heads, rows, c]. Several independent sums are interleaved to hide
// the latency of additions.
template <int C, class A> inline void axpy_matrices(A* __restrict to, const A* __restrict weight,
                                                    const A* __restrict matrix, i64 heads, i64 rows,
                                                    i64 channels) {
  constexpr int L = C > 0 && C * sizeof(A) < register_bytes ? C : register_bytes / sizeof(A);
  constexpr int vectors = C / L, head_tile = vectors ? 8 / vectors : 0;
  i64 x = 0;
  if constexpr (head_tile > 0) {
    const auto sums = [&]<int H, int R>() {
      using Lanes = Vector<A, L>;
      const i64 count = width<R>(rows);
      const A *factor = weight + x * count, *from = matrix + x * count * C;
      Lanes sum[H * vectors];
#pragma GCC unroll 8
      for (int u = 0; u < H * vectors; ++u) sum[u] = read_lanes<L>(to + x * C + u * L);
      for (i64 r = 0; r < count; ++r) {
#pragma GCC unroll 8
        for (int u = 0; u < H * vectors; ++u) {
          const i64 y = u / vectors * count + r;
          sum[u] += factor[y] * read_lanes<L>(from + y * C + u % vectors * L);
        }
      }
#pragma GCC unroll 8
      for (int u = 0; u < H * vectors; ++u) std::memcpy(to + x * C + u * L, &sum[u], sizeof(Lanes));
      x += H;
    };
    while (x + head_tile <= heads)
      if (rows == 16)
        sums.template operator()<head_tile, 16>();
      else
        sums.template operator()<head_tile, 0>();
    while (x < heads) sums.template operator()<1, 0>();
  } else {
    for (; x < heads; ++x)
      for (i64 r = 0; r < rows; ++r)
        axpy<C>(to + x * channels, weight[x * rows + r], matrix + (x * rows + r) * channels,
                channels);
  }
}

template <int C, class A> inline void scale_by(A* __restrict to, A factor, i64 channels) {
  for_channels<C>(channels, [=](i64 k) { to[k] *= factor; });
}

// The numbers of an edge, one for each head, are padded to whole vectors. The padding is never
// written to an output.
constexpr i64 lane = 8;
inline i64 lanes_of(i64 heads) { return (heads + lane - 1) / lane * lane; }

template <class Function> inline void for_lanes(i64 lanes, const Function& function) {
  for (i64 x = 0; x < lanes; x += lane)
#pragma omp simd
    for (i64 k = 0; k < lane; ++k) function(x + k);
}

// Copy the numbers of an edge, one for each head. Calling memcpy would take longer than copying the
// one or two vectors.
template <class A> inline void copy_heads(A* __restrict to, const A* __restrict from, i64 heads) {
  if (heads % lane) return void(std::copy_n(from, heads, to));
  for_lanes(heads, [=](i64 x) { to[x] = from[x]; });
}

// Read the numbers of an edge, one for each head, from memory without padding, and set the padding
// to zero.
template <class A, class T>
inline void load_heads(A* __restrict to, const T* __restrict from, i64 heads, i64 lanes) {
  if (heads == lanes) return for_lanes(lanes, [=](i64 x) { to[x] = wide(from[x]); });
  // Whole vectors are stored, because loading a vector stalls if its parts were stored separately
  // before.
  for_lanes(lanes, [=](i64 x) { to[x] = x < heads ? A(wide(from[x])) : A(0); });
}

// Combine the `count` rows of a matrix [count, lanes] with the row `to`, [lanes], in their order:
// to[x] = step(to[x], t * lanes + x) for each row t. The intermediate results stay in a register.
template <class A, class Step>
inline void reduce_lanes(A* to, i64 count, i64 lanes, const Step& step) {
  for (i64 x = 0; x < lanes; x += lane) {
    A part[lane];
    for (i64 k = 0; k < lane; ++k) part[k] = to[x + k];
    for (i64 t = 0; t < count; ++t) {
#pragma omp simd
      for (i64 k = 0; k < lane; ++k) part[k] = step(part[k], t * lanes + x + k);
    }
    for (i64 k = 0; k < lane; ++k) to[x + k] = part[k];
  }
}

// Prefetch a row for reading (Use = 0) or writing (Use = 1), into the first level of the cache, or
// into the second level (Level = 2). The latency of gathers takes most of the time of these
// kernels.
template <int Use = 0, int Level = 1, class T> inline void prefetch(const T* row, i64 n) {
  const char* byte = reinterpret_cast<const char*>(row);
  const i64 bytes = n * i64(sizeof(T)) < 1024 ? n * i64(sizeof(T)) : 1024;
  for (i64 k = 0; k < bytes; k += 64) __builtin_prefetch(byte + k, Use, 4 - Level);
  // Without this attribute, GCC would remove calls of the function, because its only effect is a
  // prefetch.
  asm volatile("");
}

// Prefetch a row of a table. The first level of the cache fetches only a few lines at a time, and
// further prefetches wait for them. The rows of a large table are therefore prefetched into the
// second level, which fetches more lines at a time.
template <class T> inline void prefetch_from(bool is_large, const T* row, i64 n) {
  is_large ? prefetch<0, 2>(row, n) : prefetch(row, n);
}

}  // namespace gattn::GATTN_ISA
