// The walk over the rows of a compressed matrix, shared by every kernel.
//
// Work is divided by edges, not by rows: chunks hold about equally many edges, and a row of more
// than a segment of edges (a hub) is cut into segments whose partial states are merged in order. The
// division depends on the graph alone, never on the number of threads, so neither do the bits of
// the result; those of a row depend on that row alone, whatever else is in the graph.
//
// A Body computes one row:
//   A       the type of its state
//   i64 state_size()                 elements of its state per row
//   i64 shared_size()                elements of a sum over all rows, 0 for most
//   void prepare()                   allocate scratch, once per thread
//   void begin(A* state)             the state of a row with no edges
//   void edges(A* state, A* shared, row, first, last)   take in edges [first, last)
//   void merge(A* into, const A* from)
//   void end(const A* state, row)    write the row's results
#pragma once

#include <omp.h>

#include <algorithm>
#include <vector>

#include "memory.h"
#include "row_ops.h"

namespace gattn::GATTN_ISA {

constexpr i64 segment = 2048;
constexpr i64 chunk_edges = 256;
constexpr i64 most_chunks = 1024;
constexpr i64 most_sums = 128, fewest_sums = 16;  // partial ones of a sum over all rows, and
constexpr i64 sum_elements = 1 << 23;             // about so many elements in all of them
constexpr i64 parallel_work = 1 << 17;  // element updates below which one thread is faster

struct Hub { i64 row, first_part, parts; };

template <class I> struct Division {
  const I* ptr;
  i64 rows, chunks, groups;
  std::vector<Hub> hubs;
  i64 parts = 0;

  // `sums`: how many partial sums over all rows may be kept, 0 where there is no such sum.
  Division(const I* ptr, i64 rows, i64 sums) : ptr(ptr), rows(rows) {
    const i64 work = rows ? i64(ptr[rows]) + rows : 0;
    chunks = std::clamp<i64>(work / chunk_edges, 1, sums ? sums : most_chunks);
    for (i64 i = 0; i < rows; ++i) {
      const i64 degree = i64(ptr[i + 1]) - i64(ptr[i]);
      if (degree <= segment) continue;
      const i64 count = (degree + segment - 1) / segment;
      hubs.push_back({i, parts, count});
      parts += count;
    }
    groups = sums ? std::min(parts, sums) : parts;
  }
  // First part of a group: the parts of a group add to one partial sum over all rows.
  i64 part_of(i64 group) const { return parts * group / groups; }
  // First row of a chunk: rows and edges count alike.
  i64 row_of(i64 chunk) const {
    if (chunk == chunks) return rows;
    const i64 target = (rows ? i64(ptr[rows]) + rows : 0) * chunk / chunks;
    i64 low = 0, high = rows;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (i64(ptr[middle]) + middle < target) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};

// Walk all rows; `total` [shared_size] receives the sum over chunks and parts, in their order.
template <class Body, class I>
void walk_rows(const I* ptr, i64 rows, i64 work_per_edge, const Body& body,
               typename Body::A* total = nullptr) {
  using A = typename Body::A;
  const i64 size = body.state_size(), shared_size = body.shared_size();
  const i64 sums = shared_size ? std::clamp(sum_elements / shared_size, fewest_sums, most_sums) : 0;
  const Division<I> division(ptr, rows, sums);
  const i64 units = division.chunks + division.groups;
  const auto partial = scratch<A>(division.parts * size);
  std::vector<A> shared(units * shared_size, A(0));
  const i64 edges = rows ? i64(ptr[rows]) : 0;
  const bool parallel = (edges + rows) * work_per_edge > parallel_work;

#pragma omp parallel if (parallel)
  {
    Body local(body);
    local.prepare();
    std::vector<A> state(size + 16);
#pragma omp for schedule(dynamic, 1) nowait
    for (i64 group = 0; group < division.groups; ++group) {
      A* sum = shared.data() + (division.chunks + group) * shared_size;
      const i64 end = division.part_of(group + 1);
      for (i64 part = division.part_of(group); part < end; ++part) {
        const auto hub = std::upper_bound(division.hubs.begin(), division.hubs.end(), part,
            [](i64 p, const Hub& h) { return p < h.first_part; }) - 1;
        const i64 first = ptr[hub->row] + (part - hub->first_part) * segment;
        const i64 last = std::min<i64>(first + segment, ptr[hub->row + 1]);
        A* own = partial.get() + part * size;
        local.begin(own);
        local.edges(own, sum, hub->row, first, last);
      }
    }
#pragma omp for schedule(dynamic, 1)
    for (i64 chunk = 0; chunk < division.chunks; ++chunk) {
      const i64 end = division.row_of(chunk + 1);
      for (i64 i = division.row_of(chunk); i < end; ++i) {
        const i64 first = ptr[i], last = ptr[i + 1];
        if (last - first > segment) continue;
        local.begin(state.data());
        if (first < last)
          local.edges(state.data(), shared.data() + chunk * shared_size, i, first, last);
        local.end(state.data(), i);
      }
    }
#pragma omp for schedule(dynamic, 1)
    for (i64 h = 0; h < i64(division.hubs.size()); ++h) {
      const Hub hub = division.hubs[h];
      A* whole = partial.get() + hub.first_part * size;
      for (i64 part = 1; part < hub.parts; ++part) local.merge(whole, whole + part * size);
      local.end(whole, hub.row);
    }
  }
  if (total == nullptr) return;
  fill(total, A(0), shared_size);
  for (i64 unit = 0; unit < units; ++unit) add(total, shared.data() + unit * shared_size, shared_size);
}

// Rows one by one where each costs about the same.
template <class Function> void for_each_row(i64 rows, i64 work_per_row, Function&& function) {
#pragma omp parallel for schedule(static) if (rows * work_per_row > parallel_work)
  for (i64 i = 0; i < rows; ++i) function(i);
}

}  // namespace gattn::GATTN_ISA
