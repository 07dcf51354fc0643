// The walk over the rows of a compressed matrix, shared by every kernel.
//
// Work is divided by edges, not by rows: chunks hold about equally many edges, and a row of more
// than `split_edges` edges (a hub) is split, and the partial states are merged in order. The
// division depends on the graph alone, never on the number of threads, so neither do the bits of
// the result; those of a row depend on that row alone, whatever else is in the graph.
//
// A Body computes one row:
//   A       the type of its state
//   i64 state_size()                 elements of its state per row
//   i64 shared_size()                elements of a sum over all rows, 0 for most
//   void prepare()                   allocate scratch, once per thread
//   void begin(A* state)             the state of a row with no edges
//   void edges(A* state, A* shared, row, first, last)   the state of edges [first, last), not none
//   void merge(A* into, const A* from)
//   void end(const A* state, row)    write the row's results
//   void expect(row)                 prefetch the memory of a row that is processed soon; optional
//   void follow(last)                announce the edges up to `last`, in order; optional
//   void finish(A* shared)           end these edges and their shared sum; optional
#pragma once

#include <omp.h>

#include <algorithm>
#include <vector>

#include "memory.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

constexpr i64 split_edges = 2048;
constexpr i64 chunk_edges = 256;
constexpr i64 most_chunks = 1024;
constexpr i64 most_sums = 128, fewest_sums = 16;  // partial ones of a sum over all rows, and
constexpr i64 sum_elements = 1 << 23;             // about so many elements in all of them
constexpr i64 own_ahead = 4;            // between asking for the memory of a row and its turn
constexpr i64 parallel_work = 1 << 17;  // element updates below which one thread is faster

struct Hub {
  i64 row, first_split, splits;
};

// The chunks of rows and the splits of hubs, from the row offsets.
template <class Offsets> struct Division {
  Offsets ptr;
  i64 rows, chunks, groups, splits = 0;
  std::vector<Hub> hubs;

  // `sums`: how many partial sums over all rows may be kept, 0 where there is no such sum.
  [[gnu::noinline]] Division(const Offsets& ptr, i64 rows, i64 sums) : ptr(ptr), rows(rows) {
    chunks = std::clamp<i64>(work() / chunk_edges, 1, sums ? sums : most_chunks);
    for (i64 i = 0; i < rows; ++i) {
      const i64 degree = i64(ptr[i + 1]) - i64(ptr[i]);
      if (degree <= split_edges) continue;
      const i64 count = (degree + split_edges - 1) / split_edges;
      hubs.push_back({i, splits, count});
      splits += count;
    }
    groups = sums ? std::min(splits, sums) : splits;
  }
  // Rows and edges count alike.
  i64 work() const { return rows ? i64(ptr[rows]) + rows : 0; }
  // First split of a group: the splits of a group add to one partial sum over all rows.
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

// to += the rows [count, size], one after another.
template <class A> [[gnu::noinline]] void add_in_order(A* to, const A* from, i64 count, i64 size) {
  for (i64 k = 0; k < count; ++k) add(to, from + k * size, size);
}

// Walk all rows; `total` [shared_size] receives the sum over chunks and splits, in their order.
template <class Body, class Offsets> void walk_rows(const Offsets& ptr, i64 rows, i64 work_per_edge,
                                                    const Body& body,
                                                    typename Body::A* total = nullptr) {
  using A = typename Body::A;
  const i64 size = body.state_size(), shared_size = body.shared_size();
  const i64 sums = shared_size ? std::clamp(sum_elements / shared_size, fewest_sums, most_sums) : 0;
  const Division<Offsets> division(ptr, rows, sums);
  const i64 units = division.chunks + division.groups;
  const auto partial = scratch<A>(division.splits * size);
  const Buffer<A> shared(units * shared_size);
  const bool parallel = division.work() * work_per_edge > parallel_work;

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
          A* own = partial.get() + split * size;
          if constexpr (requires { local.follow(last); }) local.follow(last);
          local.edges(own, sum, hub.row, first, last);
        }
        if constexpr (requires { local.finish(sum); }) local.finish(sum);
      }
#pragma omp for schedule(dynamic, 1)
      for (i64 chunk = 0; chunk < division.chunks; ++chunk) {
        A* sum = shared.data() + chunk * shared_size;
        const i64 end = division.row_of(chunk + 1);
        if constexpr (requires { local.follow(end); }) local.follow(ptr[end]);
        for (i64 i = division.row_of(chunk); i < end; ++i) {
          const i64 first = ptr[i], last = ptr[i + 1];
          if (last - first > split_edges) continue;
          if constexpr (requires { local.expect(i); })
            if (i + own_ahead < division.rows) local.expect(i + own_ahead);
          if (first < last)
            local.edges(state.data(), sum, i, first, last);
          else
            local.begin(state.data());
          local.end(state.data(), i);
        }
        if constexpr (requires { local.finish(sum); }) local.finish(sum);
      }
#pragma omp for schedule(dynamic, 1)
      for (i64 h = 0; h < i64(division.hubs.size()); ++h) {
        const Hub hub = division.hubs[h];
        A* whole = partial.get() + hub.first_split * size;
        for (i64 split = 1; split < hub.splits; ++split) local.merge(whole, whole + split * size);
        local.end(whole, hub.row);
      }
    }
  }
  allocation.check();
  if (total == nullptr) return;
  fill(total, A(0), shared_size);
  add_in_order(total, shared.data(), units, shared_size);
}

// Rows one by one where each costs about the same.
template <class Function> void for_each_row(i64 rows, i64 work_per_row, Function&& function) {
#pragma omp parallel for schedule(static) if (rows * work_per_row > parallel_work)
  for (i64 i = 0; i < rows; ++i) function(i);
}

}  // namespace gattn::GATTN_ISA
