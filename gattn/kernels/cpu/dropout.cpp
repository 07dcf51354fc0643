// This kernel applies dropout to the elements of a tensor: y = x m / (1 - p), where the mask m
// depends on the seed and the position.
//
// The generator Philox draws four random words at each counter, one word for each of four elements.
// Elements are divided into blocks of 1,024. The words at counter 256 b + k belong to the elements
// k, 256 + k, 512 + k and 768 + k of block b, so that vectors of words need no permutation. No mask
// is stored: backward applies the same kernel with the same seed to the gradient.
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

// Draw the dropout factors of the elements of block `index`: each factor is 0 or 1 / (1 - p).
template <class A>
[[gnu::noinline]] void draw_block(const Dropout& dropout, i64 index, A* factors) {
  const std::uint64_t seed = std::uint64_t(dropout.seed[0]);
  const std::uint64_t first = std::uint64_t(index) * quarter;
  const std::uint32_t threshold = dropout.threshold;
  const A scale = A(dropout.scale);
  for (i64 k = 0; k < quarter; k += draws_per_call) {
    Words words;
    philox(seed, first + k, words);
    const auto store_factors = [=](A* to, const std::uint32_t* word) {
#pragma omp simd
      for (i64 u = 0; u < draws_per_call; ++u) to[u] = word[u] >= threshold ? scale : A(0);
    };
    store_factors(factors + k, words.first);
    store_factors(factors + quarter + k, words.second);
    store_factors(factors + 2 * quarter + k, words.third);
    store_factors(factors + 3 * quarter + k, words.fourth);
  }
}

void dropout(const DropoutArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const T* x = static_cast<const T*>(args.x);
    T* out = static_cast<T*>(args.out);
    const Dropout dropout = mask_of<A>(args.seed, args.dropout, 1).dropout;
    const i64 start = dropout.seed != nullptr ? dropout.seed[1] : 0, end = start + args.numel;
#pragma omp parallel for schedule(static) if (args.numel > min_parallel_work)
    for (i64 index = start / block; index < (end + block - 1) / block; ++index) {
      A factors[block];
      draw_block(dropout, index, factors);
      const i64 first = std::max(start, index * block), last = std::min(end, (index + 1) * block);
      const T* from = x + (first - start);
      T* to = out + (first - start);
      const A* factor = factors + (first - index * block);
      for (i64 y = 0; y < last - first; ++y) to[y] = narrow<T>(wide(from[y]) * factor[y]);
    }
  });
}

}  // namespace

std::span<const Kernel> dropout_kernels() {
  static const Kernel table[] = {GATTN_KERNEL(dropout, DropoutArgs)};
  return table;
}

}  // namespace gattn::GATTN_ISA
