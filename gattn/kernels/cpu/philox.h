// Dropout: Philox4x32-10 keyed on (seed, canonical edge, head), the same on every backend. The
// canonical number of an edge is its CSR position, in a part of a larger graph counted from there.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstring>

#include "memory.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

// The four words at each of the counters that are drawn together.
constexpr i64 draws_at_once = 16;
struct Words {
  std::uint32_t first[draws_at_once], second[draws_at_once], third[draws_at_once],
      fourth[draws_at_once];
};

// Low and high half of a word times a constant.
inline std::uint64_t product(std::uint32_t factor, std::uint32_t word) {
  return std::uint64_t(factor) * word;
}
inline std::uint32_t high(std::uint64_t product) { return std::uint32_t(product >> 32); }
inline std::uint32_t low(std::uint64_t product) { return std::uint32_t(product); }

#ifdef __AVX512F__
// Multiplies only the lower half of each wide lane. The compiler would multiply whole lanes, which
// takes three times as long.
typedef std::uint64_t Lanes __attribute__((vector_size(64)));
inline Lanes product(std::uint32_t factor, const Lanes& word) {
  const __m512i factors = _mm512_set1_epi64(factor);
  return reinterpret_cast<Lanes>(_mm512_mul_epu32(factors, reinterpret_cast<__m512i>(word)));
}
inline Lanes high(const Lanes& product) { return product >> 32; }
inline Lanes low(const Lanes& product) { return product; }
#endif

// Compute the four random words of a counter of two words.
template <class W> GATTN_INLINE void philox_rounds(std::uint64_t seed, W& c0, W& c1, W& c2, W& c3) {
  std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
#pragma GCC unroll 10  // otherwise the outer loop over draws is not vectorised
  for (int round = 0; round < 10; ++round) {
    const auto product0 = product(0xD2511F53u, c0), product1 = product(0xCD9E8D57u, c2);
    c0 = high(product1) ^ c1 ^ key0;
    c1 = low(product1);
    c2 = high(product0) ^ c3 ^ key1;
    c3 = low(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

inline void philox(std::uint64_t seed, const std::uint64_t* counters, Words& to) {
#ifdef __AVX512F__
  constexpr i64 width = sizeof(Lanes) / sizeof(std::uint64_t);
  typedef std::uint32_t Half __attribute__((vector_size(32)));
  for (i64 y = 0; y < draws_at_once; y += width) {
    Lanes c0, c2{}, c3{};
    std::memcpy(&c0, counters + y, sizeof(Lanes));
    Lanes c1 = high(c0);
    philox_rounds(seed, c0, c1, c2, c3);
    const auto keep = [](std::uint32_t* words, const Lanes& lanes) {
      const Half half = __builtin_convertvector(lanes, Half);
      std::memcpy(words, &half, sizeof(Half));
    };
    keep(to.first + y, c0), keep(to.second + y, c1), keep(to.third + y, c2),
        keep(to.fourth + y, c3);
  }
#else
#pragma omp simd
  for (i64 y = 0; y < draws_at_once; ++y) {
    std::uint32_t c0 = low(counters[y]), c1 = high(counters[y]), c2 = 0, c3 = 0;
    philox_rounds(seed, c0, c1, c2, c3);
    to.first[y] = c0, to.second[y] = c1, to.third[y] = c2, to.fourth[y] = c3;
  }
#endif
}

// The same for consecutive counters.
inline void philox(std::uint64_t seed, std::uint64_t counter, Words& to) {
  std::uint64_t counters[draws_at_once];
  for (i64 y = 0; y < draws_at_once; ++y) counters[y] = counter + y;
  philox(seed, counters, to);
}

struct Dropout {
  const std::int64_t* seed = nullptr;  // key, canonical number of the first edge; null: no dropout
  std::uint32_t threshold = 0;         // draws below it are dropped
  double scale = 1;                    // 1 / (1 - p); 0 where p = 1
};

// Dropout factors of a block of edges, [count, lanes]: 0 or 1 / (1 - p).
template <class A> struct Mask {
  Dropout dropout;
  i64 heads, lanes;

  Buffer<std::uint64_t> counters;
  Buffer<A> kept;

  explicit operator bool() const { return dropout.seed != nullptr; }
  void prepare(i64 block) {
    if (*this) counters.resize(whole(block * heads)), kept.resize(whole(block * lanes));
  }

  // Draws fill whole vectors; values after the last one are not used.
  static i64 whole(i64 draws) {
    return (draws + draws_at_once - 1) / draws_at_once * draws_at_once;
  }

  // Draw the factors of the edges at these CSR positions.
  template <class Position> const A* draw(i64 count, const Position& position) {
    std::uint64_t* number = counters.data();
    const std::uint64_t edge_offset = std::uint64_t(dropout.seed[1]);
    for (i64 t = 0; t < count; ++t) {
      const std::uint64_t first = (edge_offset + std::uint64_t(position(t))) * heads;
      for (i64 x = 0; x < heads; ++x) number[t * heads + x] = first + x;
    }
    draw_all(count);
    return kept.data();
  }

  // All heads of all edges in one loop.
  [[gnu::noinline]] void draw_all(i64 count) {
    const std::uint64_t* number = counters.data();
    A* to = kept.data();
    const std::uint64_t seed = std::uint64_t(dropout.seed[0]);
    const std::uint32_t threshold = dropout.threshold;
    const A scale = A(dropout.scale);
    const i64 draws = whole(count * heads);
    for (i64 y = 0; y < draws; y += draws_at_once) {
      Words drawn;
      philox(seed, number + y, drawn);
#pragma omp simd
      for (i64 u = 0; u < draws_at_once; ++u)
        to[y + u] = drawn.first[u] >= threshold ? scale : A(0);
    }
    if (heads == lanes) return;
    for (i64 t = count - 1; t >= 0; --t)
      for (i64 x = heads - 1; x >= 0; --x) to[t * lanes + x] = to[t * heads + x];
  }
};

}  // namespace gattn::GATTN_ISA
