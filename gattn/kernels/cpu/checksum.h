// A 64-bit checksum of memory that depends on every word and its position. It detects whether a
// tensor has changed since a layout was built from it.
//
// The sum, over the words w_i, of f(w_i + i odd) with a non-linear bijection f: every change of one
// word is detected, and other changes are missed with probability 2^-64. Sums wrap, so that any
// division among threads and lanes gives the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace gattn::GATTN_ISA {

// Read a word at any address and of any type.
typedef std::uint64_t any_word [[gnu::aligned(1), gnu::may_alias]];

constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;

inline std::uint64_t scrambled(std::uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93u;
  return word ^ (word >> 32);
}

// The sum over first <= i < last. Each lane increments the multiple of odd, which saves a
// multiplication, and has its own sum.
inline std::uint64_t sum_of_words(const any_word* word, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t lanes = 32;
  std::uint64_t place[lanes], sums[lanes] = {};
  for (std::int64_t lane = 0; lane < lanes; ++lane) place[lane] = std::uint64_t(first + lane) * odd;
  std::int64_t i = first;
  for (; i + lanes <= last; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += scrambled(word[i + lane] + place[lane]);
      place[lane] += lanes * odd;
    }
  }
  std::uint64_t sum = 0;
  for (std::uint64_t part : sums) sum += part;
  for (; i < last; ++i) sum += scrambled(word[i] + std::uint64_t(i) * odd);
  return sum;
}

inline std::uint64_t checksum(const void* data, std::int64_t num_bytes) {
  constexpr std::int64_t piece = 1 << 16;  // words per thread; smaller pieces are slower
  const auto* word = static_cast<const any_word*>(data);
  const std::int64_t words = num_bytes / 8, rest = num_bytes % 8;
  std::uint64_t last = 0;
  if (rest) std::memcpy(&last, word + words, rest);
  std::uint64_t sum = scrambled(last + std::uint64_t(words) * odd);
  if (words <= piece) {
    sum += sum_of_words(word, 0, words);
  } else {
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (std::int64_t first = 0; first < words; first += piece)
      sum += sum_of_words(word, first, std::min(first + piece, words));
  }
  return scrambled((sum ^ std::uint64_t(num_bytes)) * odd);
}

}  // namespace gattn::GATTN_ISA
