// Rows of a table by an index, and rows added to those of a table by one.
//
// Rows that lie at random places are asked for ahead of their use: waiting for each of some hundred
// channels in turn takes twice the time. To add, every thread takes some of the columns, in lines
// of the cache, and all rows in their order, so that nothing is added to at once from two sides,
// and the sums are the same with any number of threads.
#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define GATHER_ROWS_FIELDS(FIELD)                                  \
  FIELD(Rows, table) FIELD(const void*, index) FIELD(void*, out)   \
  FIELD(i64, is_int64) FIELD(i64, count) FIELD(i64, width)         \
  FIELD(i64, element)
// clang-format on
GATTN_ARGS(GatherRowsArgs, GATHER_ROWS_FIELDS);

// clang-format off
#define ADD_ROWS_FIELDS(FIELD)                                     \
  FIELD(Dtype, dtype)                                              \
  FIELD(Rows, rows) FIELD(const void*, index) FIELD(void*, total)  \
  FIELD(void*, apart)                                              \
  FIELD(i64, is_int64) FIELD(i64, count) FIELD(i64, width)
// clang-format on
GATTN_ARGS(AddRowsArgs, ADD_ROWS_FIELDS);

constexpr i64 rows_ahead = 16;
constexpr i64 line = 64;  // bytes of the cache's

// out[t] = table[index[t]], of elements of any type.
void gather_rows(const GatherRowsArgs& args) {
  const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
  const i64 bytes = args.width * args.element;
  const Table<const char> table(args.table.data, args.table.stride * args.element);
  char* out = static_cast<char*>(args.out);
  for_each_row(args.count, args.width, [&](i64 t) {
    if (t + rows_ahead < args.count) prefetch(table[index[t + rows_ahead]], bytes);
    std::memcpy(out + t * bytes, table[index[t]], bytes);
  });
}

// total[index[t]] += rows[t], one t after the other; where the index is ~k, apart[k] instead.
void add_rows(const AddRowsArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
    const Table<const T> rows(args.rows);
    const Table<A> total(args.total, args.width), apart(args.apart, args.width);
    const auto place = [=](i64 i) { return i < 0 ? apart[~i] : total[i]; };
    constexpr i64 step = line / i64(sizeof(A));
    const i64 pieces = (args.width + step - 1) / step;
#pragma omp parallel if (args.count * args.width > parallel_work && pieces > 1)
    {
      const i64 threads = omp_get_num_threads(), own = omp_get_thread_num();
      const i64 first = pieces * own / threads * step;
      const i64 last = std::min(pieces * (own + 1) / threads * step, args.width);
      for (i64 t = 0; first < last && t < args.count; ++t) {
        if (t + rows_ahead < args.count)
          prefetch<1>(place(index[t + rows_ahead]) + first, last - first);
        A* to = place(index[t]);
        const T* from = rows[t];
#pragma omp simd
        for (i64 y = first; y < last; ++y) to[y] += wide(from[y]);
      }
    }
  });
}

}  // namespace

std::span<const Kernel> gather_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(gather_rows, GatherRowsArgs),
      GATTN_KERNEL(add_rows, AddRowsArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
