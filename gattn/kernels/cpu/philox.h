// Dropout: Philox4x32-10 keyed on (seed, CSR position, head), the same on every backend.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include "scalar.h"

namespace gattn::GATTN_ISA {

inline std::uint32_t philox(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
  std::uint32_t c0 = std::uint32_t(counter), c1 = std::uint32_t(counter >> 32), c2 = 0, c3 = 0;
#pragma GCC unroll 10  // or the loop over heads around it is not vector code
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t(0xD2511F53u) * c0;
    const std::uint64_t product1 = std::uint64_t(0xCD9E8D57u) * c2;
    c0 = std::uint32_t(product1 >> 32) ^ c1 ^ key0;
    c1 = std::uint32_t(product1);
    c2 = std::uint32_t(product0 >> 32) ^ c3 ^ key1;
    c3 = std::uint32_t(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c0;
}

struct Dropout {
  const std::int64_t* seed = nullptr;  // null: no dropout
  std::uint32_t threshold = 0;         // draws below it are dropped
  double scale = 1;                    // 1 / (1 - p); 0 where p = 1

  explicit operator bool() const { return seed != nullptr; }

  // Multiply the weights of one edge, [heads], by what the mask leaves of them.
  template <class A> void apply(A* __restrict weight, i64 position, i64 heads) const {
    const std::uint64_t key = std::uint64_t(*seed), first = std::uint64_t(position) * heads;
    const A kept = A(scale);
#pragma omp simd
    for (i64 x = 0; x < heads; ++x)
      weight[x] *= philox(key, first + x) >= threshold ? kept : A(0);
  }
};

}  // namespace gattn::GATTN_ISA
