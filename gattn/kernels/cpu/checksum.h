// A 64-bit checksum of memory that depends on every word and on its place: how a layout that was
// built from a tensor is known to be of what the tensor holds now.
//
// The sum, over the words w_i, of f(w_i + i odd) with f a bijection that is not linear: no change of
// one word goes unnoticed, and of other changes one in 2^64. Sums wrap, so that any division among
// threads gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace gattn::GATTN_ISA {

constexpr std::int64_t parallel_bytes = 1 << 20;  // below which one thread is faster

// A word wherever it lies, whatever was written there.
typedef std::uint64_t any_word [[gnu::aligned(1), gnu::may_alias]];

inline std::uint64_t scrambled(std::uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93u;
  return word ^ (word >> 32);
}

inline std::uint64_t checksum(const void* data, std::int64_t num_bytes) {
  constexpr std::uint64_t step = 0x9E3779B97F4A7C15u;
  const auto* word = static_cast<const any_word*>(data);
  const std::int64_t words = num_bytes / 8, rest = num_bytes % 8;
  std::uint64_t sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum) if (num_bytes > parallel_bytes)
  for (std::int64_t i = 0; i < words; ++i) sum += scrambled(word[i] + std::uint64_t(i) * step);
  std::uint64_t last = 0;
  if (rest) std::memcpy(&last, word + words, rest);
  sum += scrambled(last + std::uint64_t(words) * step);
  return scrambled((sum ^ std::uint64_t(num_bytes)) * step);
}

}  // namespace gattn::GATTN_ISA
