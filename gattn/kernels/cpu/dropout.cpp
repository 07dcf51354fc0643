// Dropout of single numbers: y = x m / (1 - p), with the draw of each number keyed on its place.
//
// No mask is stored: backward is the same map with the same seed.
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

void dropout(const DropoutArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    constexpr i64 block = 1024;
    const T* x = static_cast<const T*>(args.x);
    T* out = static_cast<T*>(args.out);
    Allocation allocation;
#pragma omp parallel if (args.numel > parallel_work)
    {
      auto mask = mask_of<A>(args.seed, args.dropout, block);
      const i64 served = allocation.attempt([&] { mask.prepare(1); }) ? args.numel : 0;
#pragma omp for schedule(static)
      for (i64 first = 0; first < served; first += block) {
        const A* kept = mask.draw(1, [&](i64) { return first / block; });
        const i64 count = std::min(block, args.numel - first);
        for (i64 y = 0; y < count; ++y) out[first + y] = narrow<T>(wide(x[first + y]) * kept[y]);
      }
    }
    allocation.check();
  });
}

}  // namespace

std::span<const Kernel> dropout_kernels() {
  static const Kernel table[] = {GATTN_KERNEL(dropout, DropoutArgs)};
  return table;
}

}  // namespace gattn::GATTN_ISA
