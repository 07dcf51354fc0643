// From run-time dtype, index type and channel count to template arguments.
#pragma once

#include "args.h"
#include "philox.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

// Call function.template operator()<T, I, C>(). Common channel counts are compiled in; the rest,
// fp64, fp16 and int64 indices take the generic loops.
template <class T, class Function> void with_channels(i64 channels, Function&& function) {
#ifdef GATTN_FIXED_CHANNELS
  switch (channels) {
    case 4: return function.template operator()<T, std::int32_t, 4>();
    case 8: return function.template operator()<T, std::int32_t, 8>();
    case 16: return function.template operator()<T, std::int32_t, 16>();
    case 32: return function.template operator()<T, std::int32_t, 32>();
    case 64: return function.template operator()<T, std::int32_t, 64>();
    case 128: return function.template operator()<T, std::int32_t, 128>();
  }
#endif
  function.template operator()<T, std::int32_t, 0>();
}

template <class Function>
void dispatch(Dtype dtype, bool is_int64, i64 channels, Function&& function) {
  switch (dtype) {
    case Dtype::f32:
      if (is_int64) return function.template operator()<float, i64, 0>();
      return with_channels<float>(channels, function);
    case Dtype::bf16:
      if (is_int64) return function.template operator()<bf16, i64, 0>();
      return with_channels<bf16>(channels, function);
    case Dtype::f16:
      if (is_int64) return function.template operator()<f16, i64, 0>();
      return function.template operator()<f16, std::int32_t, 0>();
    case Dtype::f64:
      if (is_int64) return function.template operator()<double, i64, 0>();
      return function.template operator()<double, std::int32_t, 0>();
  }
}

// Call function.template operator()<T>().
template <class Function> void dispatch(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::f32: return function.template operator()<float>();
    case Dtype::f64: return function.template operator()<double>();
    case Dtype::bf16: return function.template operator()<bf16>();
    case Dtype::f16: return function.template operator()<f16>();
  }
}

// The layout with its index type restored.
template <class I> struct Edges {
  const I *rowptr, *col, *perm, *colptr, *row, *csr2csc;
  i64 n, m, e;

  template <class Args>
  explicit Edges(const Args& a)
      : rowptr(static_cast<const I*>(a.rowptr)), col(static_cast<const I*>(a.col)),
        perm(static_cast<const I*>(a.perm)), colptr(static_cast<const I*>(a.colptr)),
        row(static_cast<const I*>(a.row)), csr2csc(static_cast<const I*>(a.csr2csc)),
        n(a.n), m(a.m), e(a.e) {}
};

// A tensor of rows.
template <class T> struct Table {
  T* data;
  i64 stride;

  Table(const Rows& rows) : data(static_cast<T*>(rows.data)), stride(rows.stride) {}
  Table(void* data, i64 stride) : data(static_cast<T*>(data)), stride(stride) {}
  T* operator[](i64 row) const { return data + row * stride; }
  explicit operator bool() const { return data != nullptr; }
};

// The mask of weights that are dropped with probability p; none where there is no seed.
template <class A> Mask<A> mask_of(const i64* seed, double p, i64 heads) {
  Dropout dropout{.seed = seed};
  const double threshold = p * 4294967296.0;
  dropout.threshold = threshold >= 4294967295.0 ? 0xffffffffu : std::uint32_t(threshold);
  dropout.scale = p < 1 ? 1 / (1 - p) : 0;
  return {.dropout = dropout, .heads = heads, .lanes = lanes_of(heads)};
}

}  // namespace gattn::GATTN_ISA
