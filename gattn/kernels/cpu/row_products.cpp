// This file computes dot products and weighted sums of rows, with loops for common numbers of
// channels.
#include "row_products.h"

#include "dispatch.h"
#include "head_sums.h"

namespace gattn::GATTN_ISA {

template <class T> void dot_rows(acc_t<T>* to, i64 stride, const acc_t<T>* row,
                                 const T* const* rows, const T* const* ahead, i64 count, i64 heads,
                                 i64 channels, bool is_large) {
  with_channels<T>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      if (ahead) prefetch_from(is_large, ahead[t], heads * c);
      head_dots<C>(to + t * stride, row, rows[t], heads, c);
    }
  });
}

template <class T> void add_weighted_rows(acc_t<T>* to, bool is_first, i64 count, i64 heads,
                                          i64 value_heads, i64 channels,
                                          const acc_t<T>* const* weights, const T* const* rows) {
  with_channels<T>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 first = 0; first < heads; first += value_heads)
      add_rows<C, T>(
          to + first * c, is_first, count, value_heads, c,
          [=](i64 t) { return weights[t] + first; }, [=](i64 t) { return rows[t]; },
          [=](i64 x) { return x * c; });
  });
}

template <class A> void scale_heads(A* to, const A* factor, i64 heads, i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 x = 0; x < heads; ++x) scale_by<C>(to + x * c, factor[x], c);
  });
}

#define GATTN_INSTANTIATE(T)                                                                      \
  template void dot_rows<T>(acc_t<T>*, i64, const acc_t<T>*, const T* const*, const T* const*,    \
                            i64, i64, i64, bool);                                                 \
  template void add_weighted_rows<T>(acc_t<T>*, bool, i64, i64, i64, i64, const acc_t<T>* const*, \
                                     const T* const*);
GATTN_INSTANTIATE(float)
GATTN_INSTANTIATE(double)
GATTN_INSTANTIATE(bf16)
GATTN_INSTANTIATE(f16)
template void scale_heads<float>(float*, const float*, i64, i64);
template void scale_heads<double>(double*, const double*, i64, i64);

}  // namespace gattn::GATTN_ISA
