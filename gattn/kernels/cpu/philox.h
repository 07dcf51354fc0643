// Dropout: Philox4x32-10 keyed on (seed, canonical edge, head), the same on every backend. The
// canonical number of an edge is its CSR position, in a part of a larger graph counted from there.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include "memory.h"
#include "scalar.h"

namespace gattn::GATTN_ISA {

// Words are as wide as the instruction set multiplies them, so that the loop over draws is vector
// code: of a wide word only the lower half counts.
#ifdef __AVX512DQ__
using word = std::uint64_t;
#else
using word = std::uint32_t;
#endif

// The four words at a counter.
struct Words {
  word first, second, third, fourth;
};

inline Words philox_words(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
  word c0 = word(std::uint32_t(counter)), c1 = word(counter >> 32), c2 = 0, c3 = 0;
#pragma GCC unroll 10  // or the loop over draws around it is not vector code
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t(0xD2511F53u) * std::uint32_t(c0);
    const std::uint64_t product1 = std::uint64_t(0xCD9E8D57u) * std::uint32_t(c2);
    c0 = word(product1 >> 32) ^ word(std::uint32_t(c1)) ^ key0;
    c1 = word(product1);
    c2 = word(product0 >> 32) ^ word(std::uint32_t(c3)) ^ key1;
    c3 = word(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

inline std::uint32_t philox(std::uint64_t seed, std::uint64_t counter) {
  return std::uint32_t(philox_words(seed, counter).first);
}

struct Dropout {
  const std::int64_t* seed = nullptr;  // key, canonical number of the first edge; null: no dropout
  std::uint32_t threshold = 0;         // draws below it are dropped
  double scale = 1;                    // 1 / (1 - p); 0 where p = 1
};

// The masks of a block of edges, [count, lanes]: what is left of each weight, 0 or 1 / (1 - p).
template <class A> struct Mask {
  Dropout dropout;
  i64 heads, lanes;

  Buffer<std::uint64_t> counters;
  Buffer<A> kept;

  explicit operator bool() const { return dropout.seed != nullptr; }
  void prepare(i64 block) {
    if (*this) counters.resize(whole(block * heads)), kept.resize(whole(block * lanes));
  }

  // Draws are made by whole vectors: what is drawn beyond the last is not looked at.
  static i64 whole(i64 draws) { return (draws + 15) / 16 * 16; }

  // Draw those of the edges at the given CSR positions.
  template <class Position> const A* draw(i64 count, const Position& position) {
    std::uint64_t* number = counters.data();
    const std::uint64_t first_edge = std::uint64_t(dropout.seed[1]);
    for (i64 t = 0; t < count; ++t) {
      const std::uint64_t first = (first_edge + std::uint64_t(position(t))) * heads;
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
#pragma omp simd
    for (i64 y = 0; y < draws; ++y) to[y] = philox(seed, number[y]) >= threshold ? scale : A(0);
    if (heads == lanes) return;
    for (i64 t = count - 1; t >= 0; --t)
      for (i64 x = heads - 1; x >= 0; --x) to[t * lanes + x] = to[t * heads + x];
  }
};

}  // namespace gattn::GATTN_ISA
