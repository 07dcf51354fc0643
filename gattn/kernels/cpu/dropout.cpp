// Dropout of single numbers: y = x m / (1 - p), with the draw of each number keyed on its place.
//
// A draw of Philox has four words, and each serves a number: those at counter 256 b + k the numbers
// k, 256 + k, 512 + k and 768 + k of the b-th 1,024, so that words are stored as they are drawn, by
// whole vectors. No mask is stored: backward is the same map with the same seed.
#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define DROPOUT_FIELDS(FIELD)                               \
  FIELD(Dtype, dtype)                                       \
  GATTN_DROPOUT_FIELDS(FIELD)                               \
  FIELD(i64, numel) FIELD(const void*, x) FIELD(void*, out)
// clang-format on
GATTN_ARGS(DropoutArgs, DROPOUT_FIELDS);

constexpr i64 quarter = 256, block = 4 * quarter;

// What is left of each number of a block, 0 or 1 / (1 - p).
template <class A> [[gnu::noinline]] void draw_block(const Dropout& dropout, i64 number, A* kept) {
  const std::uint64_t seed = std::uint64_t(dropout.seed[0]);
  const std::uint64_t first = std::uint64_t(number) * quarter;
  const std::uint32_t threshold = dropout.threshold;
  const A scale = A(dropout.scale);
  for (i64 k = 0; k < quarter; k += draws_at_once) {
    Words drawn;
    philox(seed, first + k, drawn);
    const auto keep = [=](A* to, const std::uint32_t* words) {
#pragma omp simd
      for (i64 u = 0; u < draws_at_once; ++u) to[u] = words[u] >= threshold ? scale : A(0);
    };
    keep(kept + k, drawn.first);
    keep(kept + quarter + k, drawn.second);
    keep(kept + 2 * quarter + k, drawn.third);
    keep(kept + 3 * quarter + k, drawn.fourth);
  }
}

void dropout(const DropoutArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const T* x = static_cast<const T*>(args.x);
    T* out = static_cast<T*>(args.out);
    const Dropout dropout = mask_of<A>(args.seed, args.dropout, 1).dropout;
    const i64 start = dropout.seed != nullptr ? dropout.seed[1] : 0, end = start + args.numel;
#pragma omp parallel for schedule(static) if (args.numel > parallel_work)
    for (i64 number = start / block; number < (end + block - 1) / block; ++number) {
      A kept[block];
      draw_block(dropout, number, kept);
      const i64 first = std::max(start, number * block), last = std::min(end, (number + 1) * block);
      const T* from = x + (first - start);
      T* to = out + (first - start);
      const A* left = kept + (first - number * block);
      for (i64 y = 0; y < last - first; ++y) to[y] = narrow<T>(wide(from[y]) * left[y]);
    }
  });
}

}  // namespace

std::span<const Kernel> dropout_kernels() {
  static const Kernel table[] = {GATTN_KERNEL(dropout, DropoutArgs)};
  return table;
}

}  // namespace gattn::GATTN_ISA
