// This file computes a 64-bit checksum of memory that depends on every word and its position. The
// checksum detects whether a tensor has changed since a layout was built from it.
//
// The checksum is the sum of f(w_i + i odd) over the words w_i, where `odd` is an odd constant and
// f is a non-linear bijection. A change of one word is always detected, and any other change is
// missed with probability 2^-64. Sums are modulo 2^64, so that any division among threads and lanes
// gives the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace gattn::GATTN_ISA {

// This type is a 64-bit word that may be read at any address, from memory of any type.
typedef std::uint64_t any_word [[gnu::aligned(1), gnu::may_alias]];

constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;

inline std::uint64_t scrambled(std::uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93u;
  return word ^ (word >> 32);
}

// Return the sum over the words with index first to last - 1. Each vector lane has a separate sum,
// and adds a constant to its multiple of `odd` instead of computing the product.
inline std::uint64_t sum_of_words(const any_word* word, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t lanes = 32;
  std::uint64_t offset[lanes], sums[lanes] = {};
  for (std::int64_t lane = 0; lane < lanes; ++lane)
    offset[lane] = std::uint64_t(first + lane) * odd;
  std::int64_t i = first;
  for (; i + lanes <= last; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += scrambled(word[i + lane] + offset[lane]);
      offset[lane] += lanes * odd;
    }
  }
  std::uint64_t sum = 0;
  for (std::uint64_t part : sums) sum += part;
  for (; i < last; ++i) sum += scrambled(word[i] + std::uint64_t(i) * odd);
  return sum;
}

inline std::uint64_t checksum(const void* data, std::int64_t num_bytes) {
  constexpr std::int64_t chunk = 1 << 16;  // words per thread; smaller shares would take longer
  const auto* word = static_cast<const any_word*>(data);
  const std::int64_t words = num_bytes / 8, rest = num_bytes % 8;
  std::uint64_t last = 0;
  if (rest) std::memcpy(&last, word + words, rest);
  std::uint64_t sum = scrambled(last + std::uint64_t(words) * odd);
  if (words <= chunk) {
    sum += sum_of_words(word, 0, words);
  } else {
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (std::int64_t first = 0; first < words; first += chunk)
      sum += sum_of_words(word, first, std::min(first + chunk, words));
  }
  return scrambled((sum ^ std::uint64_t(num_bytes)) * odd);
}

}  // namespace gattn::GATTN_ISA
