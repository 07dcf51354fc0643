// The functions in this file convert a dtype, an index type and a number of channels to template
// arguments.
#pragma once

#include "args.h"
#include "index.h"
#include "philox.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

// Call function.template operator()<C>(), where C is the number of channels if it is a common one
// and T is fp32 or bf16, otherwise 0, for generic loops. Only short functions without further
// template parameters should use it, because it compiles the function seven times.
template <class T, class Function>
GATTN_INLINE void with_channels([[maybe_unused]] i64 channels, const Function& function) {
#ifdef GATTN_FIXED_CHANNELS
  if constexpr (has_fixed_channels<T>) switch (channels) {
      case 4: return function.template operator()<4>();
      case 8: return function.template operator()<8>();
      case 16: return function.template operator()<16>();
      case 32: return function.template operator()<32>();
      case 64: return function.template operator()<64>();
      case 128: return function.template operator()<128>();
    }
#endif
  function.template operator()<0>();
}

// Call function.template operator()<T, I>(), where T is the C++ type of the dtype, and I is the
// type of the indices. Loops for 32-bit indices are compiled only for fp32 and bf16.
template <class Function> void dispatch(Dtype dtype, bool is_int64, Function&& function) {
  using I = std::int32_t;
  switch (dtype) {
    case Dtype::f32:
      if (is_int64) return function.template operator()<float, AnyIndex>();
      return function.template operator()<float, I>();
    case Dtype::bf16:
      if (is_int64) return function.template operator()<bf16, AnyIndex>();
      return function.template operator()<bf16, I>();
    case Dtype::f16: return function.template operator()<f16, AnyIndex>();
    case Dtype::f64: return function.template operator()<double, AnyIndex>();
  }
}

// Call function.template operator()<T>(), where T is the C++ type of the dtype.
template <class Function> void dispatch(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::f32: return function.template operator()<float>();
    case Dtype::f64: return function.template operator()<double>();
    case Dtype::bf16: return function.template operator()<bf16>();
    case Dtype::f16: return function.template operator()<f16>();
  }
}

// This struct is a tensor of rows with elements of type T.
template <class T> struct Table {
  T* data;
  i64 stride;

  Table(const Rows& rows) : data(static_cast<T*>(rows.data)), stride(rows.stride) {}
  Table(void* data, i64 stride) : data(static_cast<T*>(data)), stride(stride) {}
  T* operator[](i64 row) const { return data + row * stride; }
  explicit operator bool() const { return data != nullptr; }
};

// Return the generator of dropout masks for the drop probability p. If there is no seed, there is
// no dropout.
template <class A> Mask<A> mask_of(const i64* seed, double p, i64 heads) {
  Dropout dropout{.seed = seed};
  const double threshold = p * 4294967296.0;
  dropout.threshold = threshold >= 4294967295.0 ? 0xffffffffu : std::uint32_t(threshold);
  dropout.scale = p < 1 ? 1 / (1 - p) : 0;
  return {.dropout = dropout, .heads = heads, .lanes = lanes_of(heads)};
}

}  // namespace gattn::GATTN_ISA
