// The functions in this file compute sums over the channels of eight heads at once, such as the
// scores or dot products of an edge.
//
// The sum for a single head repeatedly adds the two halves of a register until one number is left.
// Here, two heads share a register after each addition. Eight heads of 16 channels take 12 shuffles
// and additions in this way, instead of 64 if the heads are summed one after another. The order of
// each sum, and therefore the bits of its result, are the same as in sum_of.
#pragma once

#include "row_ops.h"

namespace gattn::GATTN_ISA {

// Return the index of the source of lane i in a shuffle. The shuffle selects the low or high halves
// of two registers of L numbers, in which each sum has W numbers. If W numbers fill at most 16
// bytes, they keep their position, so that no shuffle crosses 16-byte lanes.
constexpr int half_source(int i, int L, int W, bool high) {
  const int half = W / 2;
  if (W > 4) return i / half * W + i % half + high * half;
  return i % 4 / 2 * L + i / 4 * 4 + i % 2 * (4 / W) + high * half;
}

template <int L, int W, int... i>
GATTN_INLINE Vector<float, L> add_halves(Vector<float, L> a, Vector<float, L> b,
                                         std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, half_source(i, L, W, false)...) +
         __builtin_shufflevector(a, b, half_source(i, L, W, true)...);
}

// Compute eight sums from H registers, in which each sum is stored as W partial sums.
template <int L, int W, int H> GATTN_INLINE void add_up(float* to, Vector<float, L>* part) {
  if constexpr (W == 1) {
    std::memcpy(to, part, 8 * sizeof(float));
  } else if constexpr (H == 1) {
    part[0] = add_halves<L, W>(part[0], part[0], std::make_integer_sequence<int, L>());
    // Each group of four numbers contains two sums, each of them twice.
    const Vector<float, 8> sums =
        __builtin_shufflevector(part[0], part[0], 0, 1, 4, 5, 8, 9, 12, 13);
    std::memcpy(to, &sums, sizeof(sums));
  } else {
#pragma GCC unroll 4
    for (int y = 0; y < H / 2; ++y)
      part[y] =
          add_halves<L, W>(part[2 * y], part[2 * y + 1], std::make_integer_sequence<int, L>());
    add_up<L, W / 2, H / 2>(to, part);
  }
}

// This struct is the position of a number, or of the first number of a register, in a row: its head
// and its channel.
struct Number {
  i64 head, channel;
  template <class T> auto of(const T* from, i64 begin) const { return wide(from[begin + channel]); }
};
template <int L> struct Register {
  i64 head, channel;
  template <class T> auto of(const T* from, i64 begin) const {
    return read_lanes<L>(from + begin + channel);
  }
};

// Compute the sums of eight heads, beginning with the head `first`.
template <int C, int L, bool accumulates, class Term>
GATTN_INLINE void eight_sums(float* __restrict to, i64 first, const Term& term) {
  constexpr int P = std::min(C, 16), registers = P / L, groups = L / 4;
  Vector<float, L> part[8];
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s) {
    // The heads are processed in this order, so that add_up returns the results in the order of the
    // heads.
    const i64 x = first + s % groups * (8 / groups) + s / groups;
    Vector<float, L> sum[registers] = {};
#pragma GCC unroll 2
    for (int u = 0; u < registers; ++u) {
#pragma GCC unroll 8
      for (int k = 0; k < C; k += P) sum[u] += term(Register<L>{x, k + u * L});
    }
    part[s] = sum[0];
    if constexpr (registers == 2) part[s] += sum[1];
  }
  float sums[8];
  add_up<L, L, 8>(sums, part);
#pragma omp simd
  for (int x = 0; x < 8; ++x) to[x] = accumulates ? to[x] + sums[x] : sums[x];
}

// If the template parameter `accumulates` has this value, the sums are added to existing values.
constexpr bool accumulate = true;

// For each head x, compute the sum of `term` over the channels of the head: [h]. The function
// `term` reads numbers of type T and returns one summand.
template <int C, class T, bool accumulates = false, class A, class Term>
GATTN_INLINE void sums_of_heads(A* __restrict to, i64 heads, i64 channels, const Term& term) {
  constexpr bool registers = has_fixed_channels<T> && C >= 4 && register_bytes >= 32;
  i64 x = 0;
  if constexpr (registers) {
    constexpr int L = std::min<int>(C, register_bytes / sizeof(float));
    for (; x + 8 <= heads; x += 8) eight_sums<C, L, accumulates>(to + x, x, term);
  }
  for (; x < heads; ++x) {
    const A sum = sum_of<C, A>(width<C>(channels), [=](i64 k) { return term(Number{x, k}); });
    to[x] = accumulates ? to[x] + sum : sum;
  }
}

// For each head x, compute the dot product of a_x and b_x: [h], from a and b [h, c].
template <int C, bool accumulates = false, class A, class T>
GATTN_INLINE void head_dots(A* __restrict to, const A* a, const T* b, i64 heads, i64 channels) {
  const i64 c = width<C>(channels);
  sums_of_heads<C, T, accumulates>(
      to, heads, channels, [=](auto at) { return at.of(a, at.head * c) * at.of(b, at.head * c); });
}

}  // namespace gattn::GATTN_ISA
