// This file generates the random numbers of dropout: Philox4x32-10 with the seed as key and a
// counter of (edge, head). All backends draw the same numbers. The index of an edge is its CSR
// position. If the graph is a part of a larger graph, the index is the CSR position in the larger
// graph.
//
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstring>

#include "memory.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

// This struct contains the four random words of each counter, for all counters that one call
// processes.
constexpr i64 draws_per_call = 16;
struct Words {
  std::uint32_t first[draws_per_call], second[draws_per_call], third[draws_per_call],
      fourth[draws_per_call];
};

// Multiply a word by a constant, and return the high and the low half of the product.
inline std::uint64_t product(std::uint32_t factor, std::uint32_t word) {
  return std::uint64_t(factor) * word;
}
inline std::uint32_t high(std::uint64_t product) { return std::uint32_t(product >> 32); }
inline std::uint32_t low(std::uint64_t product) { return std::uint32_t(product); }

#ifdef __AVX512F__
// Multiply the lower halves of 64-bit lanes. The compiler would multiply the whole lanes, which
// takes three times as long.
typedef std::uint64_t Lanes __attribute__((vector_size(64)));
inline Lanes product(std::uint32_t factor, const Lanes& word) {
  const __m512i factors = _mm512_set1_epi64(factor);
  return reinterpret_cast<Lanes>(_mm512_mul_epu32(factors, reinterpret_cast<__m512i>(word)));
}
inline Lanes high(const Lanes& product) { return product >> 32; }
inline Lanes low(const Lanes& product) { return product; }
#endif

// Replace a counter, which consists of the two words c0 and c1, by its four random words.
template <class W> GATTN_INLINE void philox_rounds(std::uint64_t seed, W& c0, W& c1, W& c2, W& c3) {
  std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
#pragma GCC unroll 10  // otherwise the compiler does not vectorise the outer loop over counters
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

// Compute the random words at draws_per_call counters.
inline void philox(std::uint64_t seed, const std::uint64_t* counters, Words& to) {
#ifdef __AVX512F__
  constexpr i64 width = sizeof(Lanes) / sizeof(std::uint64_t);
  typedef std::uint32_t Half __attribute__((vector_size(32)));
  for (i64 y = 0; y < draws_per_call; y += width) {
    Lanes c0, c2{}, c3{};
    std::memcpy(&c0, counters + y, sizeof(Lanes));
    Lanes c1 = high(c0);
    philox_rounds(seed, c0, c1, c2, c3);
    const auto store_low = [](std::uint32_t* words, const Lanes& lanes) {
      const Half half = __builtin_convertvector(lanes, Half);
      std::memcpy(words, &half, sizeof(Half));
    };
    store_low(to.first + y, c0), store_low(to.second + y, c1), store_low(to.third + y, c2),
        store_low(to.fourth + y, c3);
  }
#else
#pragma omp simd
  for (i64 y = 0; y < draws_per_call; ++y) {
    std::uint32_t c0 = low(counters[y]), c1 = high(counters[y]), c2 = 0, c3 = 0;
    philox_rounds(seed, c0, c1, c2, c3);
    to.first[y] = c0, to.second[y] = c1, to.third[y] = c2, to.fourth[y] = c3;
  }
#endif
}

// Compute the random words at draws_per_call consecutive counters.
inline void philox(std::uint64_t seed, std::uint64_t counter, Words& to) {
  std::uint64_t counters[draws_per_call];
  for (i64 y = 0; y < draws_per_call; ++y) counters[y] = counter + y;
  philox(seed, counters, to);
}

struct Dropout {
  // Array [2] with the key and the index of the first edge; null if there is no dropout.
  const std::int64_t* seed = nullptr;
  std::uint32_t threshold = 0;  // an edge is dropped if its random word is below this number
  double scale = 1;             // 1 / (1 - p), or 0 if p = 1
};

// This class draws the dropout factors of a block of edges, [count, lanes]. Each factor is 0 or 1 /
// (1 - p).
template <class A> struct Mask {
  Dropout dropout;
  i64 heads, lanes;

  Buffer<std::uint64_t> counters;
  Buffer<A> factors;

  explicit operator bool() const { return dropout.seed != nullptr; }
  void prepare(i64 block) {
    if (*this) counters.resize(padded(block * heads)), factors.resize(padded(block * lanes));
  }

  // The size is rounded up to a multiple of draws_per_call. The values after the last draw are not
  // used.
  static i64 padded(i64 draws) {
    return (draws + draws_per_call - 1) / draws_per_call * draws_per_call;
  }

  // Draw the factors of `count` edges. The CSR position of edge t is position(t).
  template <class Position> const A* draw(i64 count, const Position& position) {
    std::uint64_t* counter = counters.data();
    const std::uint64_t edge_offset = std::uint64_t(dropout.seed[1]);
    for (i64 t = 0; t < count; ++t) {
      const std::uint64_t first = (edge_offset + std::uint64_t(position(t))) * heads;
      for (i64 x = 0; x < heads; ++x) counter[t * heads + x] = first + x;
    }
    draw_all(count);
    return factors.data();
  }

  // Draw the factors for all heads of all edges in one loop.
  [[gnu::noinline]] void draw_all(i64 count) {
    const std::uint64_t* counter = counters.data();
    A* to = factors.data();
    const std::uint64_t seed = std::uint64_t(dropout.seed[0]);
    const std::uint32_t threshold = dropout.threshold;
    const A scale = A(dropout.scale);
    const i64 draws = padded(count * heads);
    for (i64 y = 0; y < draws; y += draws_per_call) {
      Words words;
      philox(seed, counter + y, words);
#pragma omp simd
      for (i64 u = 0; u < draws_per_call; ++u)
        to[y + u] = words.first[u] >= threshold ? scale : A(0);
    }
    if (heads == lanes) return;
    // Copy the factors of each edge's heads to its lanes. The copy begins with the last edge,
    // because both arrays use the same memory.
    for (i64 t = count - 1; t >= 0; --t)
      for (i64 x = heads - 1; x >= 0; --x) to[t * lanes + x] = to[t * heads + x];
  }
};

}  // namespace gattn::GATTN_ISA
