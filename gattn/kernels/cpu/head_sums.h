// Sums over the channels of eight heads at once: one score or inner product of an edge for each.
//
// The sum of a single head adds the halves of a register until one number is left. Here the halves
// of two heads share a register: eight heads of 16 channels take 12 shuffles and additions, instead
// of 64 for one head at a time. The order of each sum, and so its bits, are those of sum_of.
#pragma once

#include "row_ops.h"

namespace gattn::GATTN_ISA {

// Source of lane i for the sums of halves of two registers with pieces of W numbers. Pieces of up
// to 16 bytes keep their position in the register, so that no shuffle crosses 16-byte lanes.
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

// Reduce H registers, with pieces of W numbers that are parts of sums, to eight sums.
template <int L, int W, int H> GATTN_INLINE void add_up(float* to, Vector<float, L>* part) {
  if constexpr (W == 1) {
    std::memcpy(to, part, 8 * sizeof(float));
  } else if constexpr (H == 1) {
    part[0] = add_halves<L, W>(part[0], part[0], std::make_integer_sequence<int, L>());
    // Each group of four has its two sums twice.
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

// Values of head `head` from channel `channel`: one number or one register.
struct Number {
  i64 head, channel;
  template <class T> auto of(const T* from, i64 begin) const { return wide(from[begin + channel]); }
};
template <int L> struct Register {
  i64 head, channel;
  Vector<float, L> of(const float* from, i64 begin) const {
    Vector<float, L> own;
    std::memcpy(&own, from + begin + channel, sizeof(own));
    return own;
  }
};

// The sums of the eight heads from `first` on.
template <int C, int L, bool joins, class Term>
GATTN_INLINE void eight_sums(float* __restrict to, i64 first, const Term& term) {
  constexpr int P = std::min(C, 16), registers = P / L, groups = L / 4;
  Vector<float, L> part[8];
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s) {
    const i64 x = first + s % groups * (8 / groups) + s / groups;  // for results in order
    Vector<float, L> own[registers] = {};
#pragma GCC unroll 2
    for (int u = 0; u < registers; ++u) {
#pragma GCC unroll 8
      for (int k = 0; k < C; k += P) own[u] += term(Register<L>{x, k + u * L});
    }
    part[s] = own[0];
    if constexpr (registers == 2) part[s] += own[1];
  }
  float sums[8];
  add_up<L, L, 8>(sums, part);
#pragma omp simd
  for (int x = 0; x < 8; ++x) to[x] = joins ? to[x] + sums[x] : sums[x];
}

// Whether sums are added to the existing values.
constexpr bool adds = true;

// to[x] = sum of term over the channels of head x, [h]. A term reads values of type T.
template <int C, class T, bool joins = false, class A, class Term>
GATTN_INLINE void sums_of_heads(A* __restrict to, i64 heads, i64 channels, const Term& term) {
  constexpr bool registers = std::is_same_v<T, float> && C >= 4 && register_bytes >= 32;
  i64 x = 0;
  if constexpr (registers) {
    constexpr int L = std::min<int>(C, register_bytes / sizeof(float));
    for (; x + 8 <= heads; x += 8) eight_sums<C, L, joins>(to + x, x, term);
  }
  for (; x < heads; ++x) {
    const A sum = sum_of<C, A>(width<C>(channels), [=](i64 k) { return term(Number{x, k}); });
    to[x] = joins ? to[x] + sum : sum;
  }
}

// to[x] = <a_x, b_x>, [h] from [h, c].
template <int C, bool joins = false, class A, class T>
GATTN_INLINE void head_dots(A* __restrict to, const A* a, const T* b, i64 heads, i64 channels) {
  const i64 c = width<C>(channels);
  sums_of_heads<C, T, joins>(
      to, heads, channels, [=](auto at) { return at.of(a, at.head * c) * at.of(b, at.head * c); });
}

}  // namespace gattn::GATTN_ISA
