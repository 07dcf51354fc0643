// This file contains element types, conversions, exp and tanh. All functions are branch-free, so
// that the compiler can vectorise the loops that call them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gattn::GATTN_ISA {

using i64 = std::int64_t;

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

// This is the type in which sums are computed: double for double, and float for all other types.
template <class T> struct accumulator {
  using type = float;
};
template <> struct accumulator<double> {
  using type = double;
};
template <class T> using acc_t = typename accumulator<T>::type;

// The loops for these dtypes are compiled for the common numbers of channels.
template <class T> constexpr bool has_fixed_channels =
    std::is_same_v<T, float> || std::is_same_v<T, bf16>;

template <class A> constexpr A infinity = std::numeric_limits<A>::infinity();

inline float wide(float x) { return x; }
inline double wide(double x) { return x; }
inline float wide(bf16 x) { return std::bit_cast<float>(std::uint32_t(x.bits) << 16); }
inline float wide(f16 x) {
  // The exponent and mantissa of an fp16 number are now at their place in an fp32 number. The
  // result is too small by a factor of 2^112, because the exponents of the two formats have
  // different offsets.
  const std::uint32_t magnitude = std::uint32_t(x.bits & 0x7fff) << 13;
  const std::uint32_t sign = std::uint32_t(x.bits & 0x8000) << 16;
  const std::uint32_t finite =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = magnitude | 0x7f800000u;
  return std::bit_cast<float>((magnitude >= 0x0f800000u ? special : finite) | sign);
}

template <class T> inline T narrow(acc_t<T> x) { return x; }
template <> inline bf16 narrow<bf16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x0040;
  return {std::uint16_t(x != x ? nan : rounded)};
}
template <> inline f16 narrow<f16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  const std::uint32_t scaled = std::bit_cast<std::uint32_t>(magnitude * 0x1p-112f);
  std::uint32_t rounded = (scaled + 0xfff + ((scaled >> 13) & 1)) >> 13;
  rounded = rounded > 0x7c00 ? 0x7c00 : rounded;
  return {std::uint16_t((x != x ? 0x7e00u : rounded) | sign)};
}

// Compute exp(x) for x up to about zero, as in a softmax after its maximum is subtracted. With x =
// n ln2 + r and |r| <= ln2 / 2, exp(r) is a Taylor polynomial, which is exact except for the last
// bit or two, and n is added to the exponent. Results below the smallest normal number are zero;
// NaN stays NaN.
inline float exp_below(float x) {
  // Adding `shift`, which is 1.5 * 2^23, rounds a number to an integer.
  constexpr float lowest = -87.0f, shift = 12582912.0f;
  const float safe = x > lowest ? x : lowest;
  const float t = safe * 1.44269504089f + shift;
  const float n = t - shift;
  const float r = (safe - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  float y = 1.0f / 5040;
  y = y * r + 1.0f / 720;
  y = y * r + 1.0f / 120;
  y = y * r + 1.0f / 24;
  y = y * r + 1.0f / 6;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) +
                                            (std::bit_cast<std::uint32_t>(t) << 23));
  const float flushed = x < lowest ? 0.0f : scaled;
  return x != x ? x : flushed;
}
inline double exp_below(double x) {
  // Adding `shift`, which is 1.5 * 2^52, rounds a number to an integer.
  constexpr double lowest = -708.0, shift = 6755399441055744.0;
  const double safe = x > lowest ? x : lowest;
  const double t = safe * 1.4426950408889634074 + shift;
  const double n = t - shift;
  const double r = (safe - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double y = 1.0 / 6227020800.0;
  y = y * r + 1.0 / 479001600.0;
  y = y * r + 1.0 / 39916800.0;
  y = y * r + 1.0 / 3628800.0;
  y = y * r + 1.0 / 362880.0;
  y = y * r + 1.0 / 40320.0;
  y = y * r + 1.0 / 5040.0;
  y = y * r + 1.0 / 720.0;
  y = y * r + 1.0 / 120.0;
  y = y * r + 1.0 / 24.0;
  y = y * r + 1.0 / 6.0;
  y = y * r + 0.5;
  y = y * r + 1.0;
  y = y * r + 1.0;
  const double scaled = std::bit_cast<double>(std::bit_cast<std::uint64_t>(y) +
                                              (std::bit_cast<std::uint64_t>(t) << 52));
  const double flushed = x < lowest ? 0.0 : scaled;
  return x != x ? x : flushed;
}

// Compute tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|). Near zero, where 1 - e loses digits,
// the result is a Taylor polynomial.
template <class A> inline A tanh_of(A x) {
  // The polynomial is used if |x| is below this limit.
  constexpr A max_square = sizeof(A) == 4 ? A(0.09) : A(0.01);
  const A e = exp_below(x < 0 ? 2 * x : -2 * x);
  const A y = (1 - e) / (1 + e);
  const A by_exp = x < 0 ? -y : y;
  const A square = x * x;
  A p = A(21844.0 / 6081075);
  p = p * square - A(1382.0 / 155925);
  p = p * square + A(62.0 / 2835);
  p = p * square - A(17.0 / 315);
  p = p * square + A(2.0 / 15);
  p = p * square - A(1.0 / 3);
  const A by_series = x + x * (p * square);
  return square < max_square ? by_series : by_exp;
}

}  // namespace gattn::GATTN_ISA
