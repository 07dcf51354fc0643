// Rows of a table by an index, and rows added to those of a table by one.
//
// Rows that lie at random places are asked for ahead of their use: waiting for each of some hundred
// channels in turn takes twice the time. To add, every thread takes some of the columns, in lines
// of the cache, and all rows in their order, or all rows of some places where those of a place
// follow one another: nothing is added to at once from two sides, and the sums are the same with
// any number of threads.
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
  FIELD(const void*, hubs) FIELD(void*, apart)                     \
  FIELD(i64, is_int64) FIELD(i64, is_sorted)                       \
  FIELD(i64, count) FIELD(i64, width) FIELD(i64, num_hubs)
// clang-format on
GATTN_ARGS(AddRowsArgs, ADD_ROWS_FIELDS);

constexpr i64 rows_ahead = 16;
constexpr i64 line = 64;  // bytes of the cache's

// out[t] = table[index[t]], of elements of any type.
void gather_rows(const GatherRowsArgs& args) {
  const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
  const i64 bytes = args.width * args.element;
  if (bytes == 0) return;  // the pointers of empty tensors are null, which memcpy must not get
  const Table<const char> table(args.table.data, args.table.stride * args.element);
  char* out = static_cast<char*>(args.out);
  for_each_row(args.count, args.width, [&](i64 t) {
    if (t + rows_ahead < args.count) prefetch(table[index[t + rows_ahead]], bytes);
    std::memcpy(out + t * bytes, table[index[t]], bytes);
  });
}

// total[index[t]] += rows[t], one t after the other; where the index is ~k, apart[k] instead, which
// joins total[hubs[k]] at the end, and is cleared.
void add_rows(const AddRowsArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const auto index = indices_of<AnyIndex>(args.index, args.is_int64);
    const auto hubs = indices_of<AnyIndex>(args.hubs, args.is_int64);
    const Table<const T> rows(args.rows);
    const Table<A> total(args.total, args.width), apart(args.apart, args.width);
    const auto place = [=](i64 i) { return i < 0 ? apart[~i] : total[i]; };
    constexpr i64 step = line / i64(sizeof(A));
    const i64 count = args.count, width = args.width, pieces = (width + step - 1) / step;
    // The first row of the share: where the rows of a place begin.
    const auto cut = [=](i64 share, i64 shares) {
      i64 t = count * share / shares;
      while (0 < t && t < count && index[t] == index[t - 1]) ++t;
      return t;
    };
#pragma omp parallel if (count * width > parallel_work && (args.is_sorted || pieces > 1))
    {
      const i64 threads = omp_get_num_threads(), own = omp_get_thread_num();
      const i64 first = pieces * own / threads * step;
      const i64 last = std::min(pieces * (own + 1) / threads * step, width);
      const auto add = [&](i64 begin, i64 end, i64 from, i64 to) {
        for (i64 t = begin; from < to && t < end; ++t) {
          if (t + rows_ahead < end) prefetch<1>(place(index[t + rows_ahead]) + from, to - from);
          A* sum = place(index[t]);
          const T* row = rows[t];
#pragma omp simd
          for (i64 y = from; y < to; ++y) sum[y] += wide(row[y]);
        }
      };
      if (args.is_sorted)
        add(cut(own, threads), cut(own + 1, threads), 0, width);
      else
        add(0, count, first, last);
#pragma omp barrier
      for (i64 k = 0; k < args.num_hubs; ++k) {
        for (i64 y = first; y < last; ++y) total[hubs[k]][y] += std::exchange(apart[k][y], A(0));
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
