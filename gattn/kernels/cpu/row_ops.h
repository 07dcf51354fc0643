// Loops over the channels of one row. C is the number of channels per head where it is known at
// compile time, 0 where it is not.
#pragma once

#include "scalar.h"

namespace gattn::GATTN_ISA {

// The number of channels: a constant wherever it can be one.
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

template <int C, class A, class T> inline A dot(const A* __restrict a, const T* __restrict b, i64 channels) {
  const i64 c = width<C>(channels);
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (i64 k = 0; k < c; ++k) sum += a[k] * wide(b[k]);
  return sum;
}

// to += weight * from
template <int C, class A, class T>
inline void axpy(A* __restrict to, A weight, const T* __restrict from, i64 channels) {
  const i64 c = width<C>(channels);
#pragma omp simd
  for (i64 k = 0; k < c; ++k) to[k] += weight * wide(from[k]);
}

// Ask for a row ahead of its use: gathers are what these kernels wait for.
template <class T> inline void prefetch(const T* row, i64 n) {
  const char* byte = reinterpret_cast<const char*>(row);
  const i64 bytes = n * i64(sizeof(T)) < 1024 ? n * i64(sizeof(T)) : 1024;
  for (i64 k = 0; k < bytes; k += 64) __builtin_prefetch(byte + k);
}

}  // namespace gattn::GATTN_ISA
