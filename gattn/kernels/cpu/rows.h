// This file contains the parallel pass over the rows of a CSR or CSC matrix, which all kernels on
// edges use.
//
// The work is divided by the number of edges, not by the number of rows. Rows are grouped in chunks
// with about the same number of edges. A row of more than `split_edges` edges (a hub) is divided
// into splits, whose partial states are merged in order. The division depends only on the graph and
// not on the number of threads, so the bits of the result do not depend on the number of threads
// either. The bits of a row depend only on that row.
//
// A Body computes one row. It has the following members:
//   A                                type of its state
//   i64 state_size()                 number of elements of its state per row
//   i64 shared_size()                number of elements of a sum over all rows; 0 if there is none
//   void prepare()                   allocate scratch memory, once per thread
//   void begin(A* state)             set the state of a row without edges
//   void add_edges(A* state, A* shared, row, first, last)
//                                    compute the state of the edges first to last - 1, at least one
//   void merge(A* into, const A* from)   add the state of another split of the row
//   void end(const A* state, row)    write the results of the row
//   void prefetch_row(row)           prefetch the memory of a row that is processed soon (optional)
//   void set_end(last)               set the end of the edges that follow in order (optional)
//   void finish(A* shared)           finish the edges up to `last` and their sum (optional)
#pragma once

#include <omp.h>

#include <algorithm>
#include <vector>

#include "memory.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

constexpr i64 split_edges = 2048;  // maximum number of edges in a split
// Minimum work of a chunk, which is its number of rows plus edges.
constexpr i64 chunk_edges = 256;
constexpr i64 max_chunks = 1024;
// Limits of the partial sums over all rows: their number, and their total number of elements.
constexpr i64 max_partial_sums = 128, min_partial_sums = 16;
constexpr i64 max_sum_elements = 1 << 23;
// A row is prefetched this number of rows before it is used.
constexpr i64 row_prefetch_distance = 4;
// For less work than this, one thread is faster than several threads.
constexpr i64 min_parallel_work = 1 << 17;

struct Hub {
  i64 row, first_split, splits;
};

// This class divides the rows into chunks, and the hubs (rows with many edges) into splits. The
// division is computed from the row offsets.
template <class Offsets> struct Division {
  Offsets ptr;
  i64 rows, chunks, groups, splits = 0;
  std::vector<Hub> hubs;

  // The argument `sums` is the maximum number of partial sums over all rows. It is 0 if there is no
  // such sum.
  [[gnu::noinline]] Division(const Offsets& ptr, i64 rows, i64 sums) : ptr(ptr), rows(rows) {
    chunks = std::clamp<i64>(work() / chunk_edges, 1, sums ? sums : max_chunks);
    for (i64 i = 0; i < rows; ++i) {
      const i64 degree = i64(ptr[i + 1]) - i64(ptr[i]);
      if (degree <= split_edges) continue;
      const i64 count = (degree + split_edges - 1) / split_edges;
      hubs.push_back({i, splits, count});
      splits += count;
    }
    groups = sums ? std::min(splits, sums) : splits;
  }
  // A row without edges counts as one edge, because processing it also takes time.
  i64 work() const { return rows ? i64(ptr[rows]) + rows : 0; }
  // Return the first split of a group. The splits of a group share one partial sum over all rows.
  i64 split_of(i64 group) const { return splits * group / groups; }
  [[gnu::noinline]] Hub hub_of(i64 split) const {
    const auto after = std::upper_bound(hubs.begin(), hubs.end(), split,
                                        [](i64 s, const Hub& h) { return s < h.first_split; });
    return *(after - 1);
  }
  [[gnu::noinline]] i64 row_of(i64 chunk) const {
    if (chunk == chunks) return rows;
    const i64 target = work() * chunk / chunks;
    i64 low = 0, high = rows;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (i64(ptr[middle]) + middle < target)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

// Add the rows of `from`, [count, size], one after another to `to`, [size].
template <class A> [[gnu::noinline]] void add_in_order(A* to, const A* from, i64 count, i64 size) {
  for (i64 k = 0; k < count; ++k) add(to, from + k * size, size);
}

// This struct is a part of a pass: rows without hubs, the edges first to last - 1 of a hub, or the
// end of a hub whose splits have been merged.
struct Part {
  enum { rows, split, end_of_hub } kind;
  i64 first_row, last_row;
  i64 first = 0, last = 0;
};

// Compute a part of a pass. The functions of a body are called only here, so that the compiler
// inlines them once.
template <class Body, class Offsets>
[[gnu::noinline]] void compute_part(Body& body, const Offsets& ptr, i64 num_rows, const Part& part,
                                    typename Body::A* state, typename Body::A* sum) {
  for (i64 i = part.first_row; i < part.last_row; ++i) {
    i64 first = part.first, last = part.last;
    if (part.kind == Part::rows) {
      first = ptr[i], last = ptr[i + 1];
      if (last - first > split_edges) continue;
      if constexpr (requires { body.prefetch_row(i); })
        if (i + row_prefetch_distance < num_rows) body.prefetch_row(i + row_prefetch_distance);
    }
    if (first < last)
      body.add_edges(state, sum, i, first, last);
    else if (part.kind == Part::rows)
      body.begin(state);
    if (part.kind != Part::split) body.end(state, i);
  }
}

// Compute all rows. The sum over all chunks and splits, in their order, is written to `total`,
// [shared_size].
template <class Body, class Offsets> void walk_rows(const Offsets& ptr, i64 rows, i64 work_per_edge,
                                                    const Body& body,
                                                    typename Body::A* total = nullptr) {
  using A = typename Body::A;
  const i64 size = body.state_size(), shared_size = body.shared_size();
  const i64 sums =
      shared_size ? std::clamp(max_sum_elements / shared_size, min_partial_sums, max_partial_sums)
                  : 0;
  const Division<Offsets> division(ptr, rows, sums);
  const i64 units = division.chunks + division.groups;
  const auto partial = scratch<A>(division.splits * size);
  const Buffer<A> shared(units * shared_size);
  const bool parallel = division.work() * work_per_edge > min_parallel_work;

  Allocation allocation;
#pragma omp parallel if (parallel)
  {
    Body local(body);
    Buffer<A> state;
    if (allocation.attempt([&] { local.prepare(), state.resize(size + 16); })) {
#pragma omp for schedule(dynamic, 1) nowait
      for (i64 group = 0; group < division.groups; ++group) {
        A* sum = shared.data() + (division.chunks + group) * shared_size;
        const i64 end = division.split_of(group + 1);
        for (i64 split = division.split_of(group); split < end; ++split) {
          const Hub hub = division.hub_of(split);
          const i64 first = ptr[hub.row] + (split - hub.first_split) * split_edges;
          const i64 last = std::min<i64>(first + split_edges, ptr[hub.row + 1]);
          A* split_state = partial.get() + split * size;
          if constexpr (requires { local.set_end(0); }) local.set_end(last);
          const Part part{Part::split, hub.row, hub.row + 1, first, last};
          compute_part(local, ptr, division.rows, part, split_state, sum);
        }
        if constexpr (requires { local.finish(sum); }) local.finish(sum);
      }
#pragma omp for schedule(dynamic, 1)
      for (i64 chunk = 0; chunk < division.chunks; ++chunk) {
        A* sum = shared.data() + chunk * shared_size;
        const Part part{Part::rows, division.row_of(chunk), division.row_of(chunk + 1)};
        if constexpr (requires { local.set_end(0); }) local.set_end(ptr[part.last_row]);
        compute_part(local, ptr, division.rows, part, state.data(), sum);
        if constexpr (requires { local.finish(sum); }) local.finish(sum);
      }
#pragma omp for schedule(dynamic, 1)
      for (i64 h = 0; h < i64(division.hubs.size()); ++h) {
        const Hub hub = division.hubs[h];
        A* whole = partial.get() + hub.first_split * size;
        for (i64 split = 1; split < hub.splits; ++split) local.merge(whole, whole + split * size);
        const Part part{Part::end_of_hub, hub.row, hub.row + 1};
        compute_part(local, ptr, division.rows, part, whole, whole);
      }
    }
  }
  allocation.check();
  if (total == nullptr) return;
  fill(total, A(0), shared_size);
  add_in_order(total, shared.data(), units, shared_size);
}

// Call function(i) for every row i in parallel. All rows should take about the same time.
template <class Function> void for_each_row(i64 rows, i64 work_per_row, Function&& function) {
#pragma omp parallel for schedule(static) if (rows * work_per_row > min_parallel_work)
  for (i64 i = 0; i < rows; ++i) function(i);
}

}  // namespace gattn::GATTN_ISA
