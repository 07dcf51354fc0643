// These kernels gather rows of a table, and add rows to the rows of a table (scatter-add).
//
// Rows at random positions are prefetched: without prefetching, gathering rows of about a hundred
// channels takes twice the time. In a scatter-add, each thread processes all rows, but only a range
// of columns that consists of whole cache lines. If rows with the same index are adjacent, each
// thread adds a range of the rows instead. In both cases, no two threads add to the same number,
// and the sums are the same with any number of threads.
#include <utility>

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
  FIELD(const void*, hubs) FIELD(void*, hub_sums)                     \
  FIELD(i64, is_int64) FIELD(i64, is_sorted)                       \
  FIELD(i64, count) FIELD(i64, width) FIELD(i64, num_hubs)
// clang-format on
GATTN_ARGS(AddRowsArgs, ADD_ROWS_FIELDS);

// A row is prefetched this number of rows before it is used.
constexpr i64 rows_ahead = 16;
constexpr i64 line = 64;  // number of bytes in a cache line

// Copy the row table[index[t]] to out[t] for all t. The elements may have any type.
void gather_rows(const GatherRowsArgs& args) {
  const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
  const i64 bytes = args.width * args.element;
  // The pointer of an empty tensor is null, and memcpy must not receive it.
  if (bytes == 0) return;
  const Table<const char> table(args.table.data, args.table.stride * args.element);
  char* out = static_cast<char*>(args.out);
  for_each_row(args.count, args.width, [&](i64 t) {
    if (t + rows_ahead < args.count) prefetch(table[index[t + rows_ahead]], bytes);
    std::memcpy(out + t * bytes, table[index[t]], bytes);
  });
}

// Add the row rows[t] to total[index[t]], in the order of t. If the index is negative, ~k, add the
// row to hub_sums[k] instead. At the end, hub_sums[k] is added to total[hubs[k]] and set to zero.
void add_rows(const AddRowsArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
    const auto hubs = indices_of<AnyIndex>(args.hubs, args.is_int64);
    const Table<const T> rows(args.rows);
    const Table<A> total(args.total, args.width), hub_sums(args.hub_sums, args.width);
    const auto target = [=](i64 i) { return i < 0 ? hub_sums[~i] : total[i]; };
    constexpr i64 step = line / i64(sizeof(A));
    const i64 count = args.count, width = args.width, lines = (width + step - 1) / step;
    // Return the first row of a thread. Its index differs from the index of the last row of the
    // previous thread, so that two threads never add to the same sum.
    const auto first_row = [=](i64 thread, i64 threads) {
      i64 t = count * thread / threads;
      while (0 < t && t < count && index[t] == index[t - 1]) ++t;
      return t;
    };
#pragma omp parallel if (count * width > min_parallel_work && (args.is_sorted || lines > 1))
    {
      const i64 threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const i64 first = lines * thread / threads * step;
      const i64 last = std::min(lines * (thread + 1) / threads * step, width);
      const auto add = [&](i64 begin, i64 end, i64 from, i64 to) {
        for (i64 t = begin; from < to && t < end; ++t) {
          if (t + rows_ahead < end) prefetch<1>(target(index[t + rows_ahead]) + from, to - from);
          A* sum = target(index[t]);
          const T* row = rows[t];
#pragma omp simd
          for (i64 y = from; y < to; ++y) sum[y] += wide(row[y]);
        }
      };
      if (args.is_sorted)
        add(first_row(thread, threads), first_row(thread + 1, threads), 0, width);
      else
        add(0, count, first, last);
#pragma omp barrier
      for (i64 k = 0; k < args.num_hubs; ++k) {
        for (i64 y = first; y < last; ++y) total[hubs[k]][y] += std::exchange(hub_sums[k][y], A(0));
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
