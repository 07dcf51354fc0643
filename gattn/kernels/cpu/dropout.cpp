// Dropout of single numbers: y = x m / (1 - p), with the draw of each number keyed on its place.
//
// No mask is stored: backward is the same map with the same seed.
#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

#define DROPOUT_FIELDS(FIELD)     \
  FIELD(Dtype, dtype)             \
  GATTN_DROPOUT_FIELDS(FIELD)     \
  FIELD(i64, numel)               \
  FIELD(const void*, x) FIELD(void*, out)
GATTN_ARGS(DropoutArgs, DROPOUT_FIELDS);

void dropout(const DropoutArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    constexpr i64 block = 1024;
    const T* x = static_cast<const T*>(args.x);
    T* out = static_cast<T*>(args.out);
#pragma omp parallel if (args.numel > parallel_work)
    {
      auto mask = mask_of<A>(args.seed, args.dropout, block);
      mask.prepare(1);
#pragma omp for schedule(static)
      for (i64 first = 0; first < args.numel; first += block) {
        const A* kept = mask.draw(1, [&](i64) { return first / block; });
        const i64 count = std::min(block, args.numel - first);
        for (i64 y = 0; y < count; ++y) out[first + y] = narrow<T>(wide(x[first + y]) * kept[y]);
      }
    }
  });
}

}  // namespace

std::span<const Kernel> dropout_kernels() {
  static const Kernel table[] = {GATTN_KERNEL(dropout, DropoutArgs)};
  return table;
}

}  // namespace gattn::GATTN_ISA
