// Neighbour sampling, one hop: of the edges into each destination some or all, uniformly.
//
// Edge number e of a batch is drawn by philox(seed, e), whatever thread draws it. Without
// replacement k of d edges take k draws, by Floyd's algorithm: for top = d - k, ..., d - 1 draw a
// place up to top, and take top itself where that place was taken before. Bentley, Floyd,
// "Programming pearls: a sample of brilliance" (CACM 1987).
//
// Sources are numbered in the order in which they are met, on one thread; everything else is shared
// among threads. Reads col and perm at random places, 8 bytes an edge, and the number of each
// source; writes 28 bytes an edge.
#include <algorithm>

#include "args.h"
#include "memory.h"
#include "philox.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

using i32 = std::int32_t;

// clang-format off
#define SAMPLING_FIELDS(FIELD)                                                       \
  GATTN_LAYOUT_FIELDS(FIELD)                                                         \
  FIELD(const i64*, nodes) FIELD(i64, num_nodes)       /* destinations of the hop */ \
  FIELD(i64, num_neighbors) FIELD(i64, replace) FIELD(i64, max_degree)                     \
  FIELD(i64, seed) FIELD(i64, edge_offset) FIELD(i64, first_destination)              \
  FIELD(i64, num_known) FIELD(i32*, numbers)           /* -1: not in the batch */    \
  FIELD(i64*, offsets) FIELD(i64*, edge_index) FIELD(i32*, sources)                  \
  FIELD(i64*, edges) FIELD(i64*, new_nodes) FIELD(i64*, num_new)
// clang-format on
GATTN_ARGS(SamplingArgs, SAMPLING_FIELDS);

constexpr i64 rows_at_once = 64;    // whose edges are asked for before any is waited for
constexpr i64 rows_ahead = 16;      // whose offsets are asked for
constexpr i64 edges_ahead = 32;     // whose sources' numbers are asked for
constexpr i64 few_edges = 1 << 12;  // which one thread samples faster

template <class Function> void with_index(bool is_int64, Function&& function) {
  if (is_int64)
    function.template operator()<i64>();
  else
    function.template operator()<i32>();
}

// Where the edges of each destination begin among those of the hop: [num_nodes + 1].
void sample_offsets(const SamplingArgs& args) {
  with_index(args.is_int64, [&]<class I>() {
    const I* rowptr = static_cast<const I*>(args.rowptr);
    args.offsets[0] = 0;
#pragma omp parallel for schedule(static) if (args.num_nodes > few_edges)
    for (i64 r = 0; r < args.num_nodes; ++r) {
      const i64 i = args.nodes[r], degree = i64(rowptr[i + 1]) - i64(rowptr[i]);
      const bool all = args.num_neighbors < 0 || (!args.replace && degree <= args.num_neighbors);
      args.offsets[r + 1] = all ? degree : degree > 0 ? args.num_neighbors : 0;
    }
    for (i64 r = 0; r < args.num_nodes; ++r) args.offsets[r + 1] += args.offsets[r];
  });
}

// The draws of consecutive edges, made by whole vectors.
class Draws {
 public:
  explicit Draws(i64 seed) : seed_(seed) {}
  // A place below the end, which no probability misses by more than 2^-32.
  i64 below(i64 end, i64 edge) {
    if (edge < first_ || edge >= first_ + window) draw(edge);
    return i64((std::uint64_t(numbers_[edge - first_]) * std::uint64_t(end)) >> 32);
  }

 private:
  static constexpr i64 window = 128;
  [[gnu::noinline]] void draw(i64 first) {
    first_ = first;
    for (i64 y = 0; y < window; y += draws_at_once) {
      Words drawn;
      philox(seed_, std::uint64_t(first + y), drawn);
      std::copy_n(drawn.first, draws_at_once, numbers_ + y);
    }
  }

  std::uint64_t seed_;
  i64 first_ = -window - 1;
  std::uint32_t numbers_[window];
};

// Which places of a row are taken; empty between rows.
class Places {
 public:
  void resize(i64 size) { words_.resize(size / 64 + 1); }
  bool take(i64 place) {
    std::uint64_t& word = words_[place / 64];
    const std::uint64_t bit = std::uint64_t(1) << (place % 64);
    const bool is_new = !(word & bit);
    word |= bit;
    return is_new;
  }
  void release(i64 place) { words_[place / 64] = 0; }

 private:
  Buffer<std::uint64_t> words_;
};

// The CSR positions of the edges that are taken from a row of the given degree, to `at`.
template <class I> void draw_row(const SamplingArgs& args, i64 begin, i64 degree, i64 slot,
                                 i64 count, Draws& draws, Places& places, I* at) {
  const i64 edge = args.edge_offset + slot;
  if (args.num_neighbors < 0 || (!args.replace && count == degree)) {
    for (i64 y = 0; y < count; ++y) at[y] = I(begin + y);
  } else if (args.replace) {
    for (i64 y = 0; y < count; ++y) at[y] = I(begin + draws.below(degree, edge + y));
  } else {
    for (i64 y = 0; y < count; ++y) {
      const i64 top = degree - count + y;
      i64 place = draws.below(top + 1, edge + y);
      if (!places.take(place)) places.take(place = top);
      at[y] = I(begin + place);
    }
    for (i64 y = 0; y < count; ++y) places.release(i64(at[y]) - begin);
  }
}

// Source and caller's position of the edges of a few rows, in the order in which they were drawn.
template <class I> void draw_rows(const SamplingArgs& args, i64 first, i64 last, Draws& draws,
                                  Places& places, I* source, I* edge) {
  const I* rowptr = static_cast<const I*>(args.rowptr);
  const I* col = static_cast<const I*>(args.col);
  const I* perm = static_cast<const I*>(args.perm);
  for (i64 r = first; r < last; ++r) {
    if (r + rows_ahead < args.num_nodes) __builtin_prefetch(rowptr + args.nodes[r + rows_ahead]);
    const i64 begin = i64(rowptr[args.nodes[r]]), degree = i64(rowptr[args.nodes[r] + 1]) - begin;
    const i64 slot = args.offsets[r], count = args.offsets[r + 1] - slot;
    draw_row(args, begin, degree, slot, count, draws, places, edge + slot);
    for (i64 t = slot; t < slot + count; ++t) {
      __builtin_prefetch(col + edge[t]);
      __builtin_prefetch(perm + edge[t]);
    }
  }
  for (i64 t = args.offsets[first]; t < args.offsets[last]; ++t) {
    source[t] = col[edge[t]];
    edge[t] = perm[edge[t]];
  }
}

// Replace sources by their numbers in the batch; new ones follow those that are known.
template <class I> i64 number_sources(const SamplingArgs& args, i64 count, I* source) {
  i64 known = args.num_known;
  for (i64 t = 0; t < count; ++t) {
    if (t + edges_ahead < count) __builtin_prefetch(args.numbers + source[t + edges_ahead], 1);
    i32& number = args.numbers[source[t]];
    if (number < 0) {
      number = i32(known);
      args.new_nodes[known++ - args.num_known] = i64(source[t]);
    }
    source[t] = I(number);
  }
  return known - args.num_known;
}

// Sort a few keys, no two alike: each goes to the place that the number of smaller ones names,
// without a branch that a processor could guess wrong.
template <int width> void sort_few(std::uint64_t* keys, i64 count) {
  std::uint64_t given[width];
  for (i64 y = 0; y < width; ++y) given[y] = y < count ? keys[y] : ~std::uint64_t(0);
  for (i64 y = 0; y < count; ++y) {
    std::uint64_t smaller = 0;
#pragma omp simd reduction(+ : smaller)
    for (i64 x = 0; x < width; ++x) smaller += given[x] < given[y];
    keys[smaller] = given[y];
  }
}

inline void sort_keys(std::uint64_t* keys, i64 count) {
  if (count <= 8)
    sort_few<8>(keys, count);
  else if (count <= 16)
    sort_few<16>(keys, count);
  else
    std::sort(keys, keys + count);
}

// Write the edges of a row in the order of their sources; equal ones as they were drawn.
template <class I> void write_row(const SamplingArgs& args, i64 r, std::uint64_t* keys,
                                  const I* source, const I* edge) {
  const i64 slot = args.offsets[r], count = args.offsets[r + 1] - slot;
  for (i64 y = 0; y < count; ++y)
    keys[y] = std::uint64_t(source[slot + y]) << 32 | std::uint64_t(y);
  sort_keys(keys, count);
  const i64 total = args.offsets[args.num_nodes];
  for (i64 y = 0; y < count; ++y) {
    const i64 t = slot + y, from = slot + i64(std::uint32_t(keys[y]));
    args.sources[t] = i32(keys[y] >> 32);
    args.edge_index[t] = i64(keys[y] >> 32);
    args.edge_index[total + t] = args.first_destination + r;
    args.edges[t] = i64(edge[from]);
  }
}

void sample_edges(const SamplingArgs& args) {
  with_index(args.is_int64, [&]<class I>() {
    const i64 n = args.num_nodes, total = args.offsets[n];
    const i64 widest =
        args.replace ? std::max(args.num_neighbors, args.max_degree) : args.max_degree;
    const auto source = scratch<I>(total), edge = scratch<I>(total);
    Allocation allocation;
#pragma omp parallel if (total > few_edges)
    {
      Draws draws(args.seed);
      Places places;
      const i64 served = allocation.attempt([&] { places.resize(args.max_degree); }) ? n : 0;
#pragma omp for schedule(dynamic, 4)
      for (i64 first = 0; first < served; first += rows_at_once)
        draw_rows<I>(args, first, std::min(first + rows_at_once, n), draws, places, source.get(),
                     edge.get());
    }
    allocation.check();
    *args.num_new = number_sources<I>(args, total, source.get());
#pragma omp parallel if (total > few_edges)
    {
      Buffer<std::uint64_t> keys;
      const i64 served = allocation.attempt([&] { keys.resize(widest); }) ? n : 0;
#pragma omp for schedule(static)
      for (i64 r = 0; r < served; ++r) write_row<I>(args, r, keys.data(), source.get(), edge.get());
    }
    allocation.check();
  });
}

}  // namespace

std::span<const Kernel> sampling_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(sample_offsets, SamplingArgs),
      GATTN_KERNEL(sample_edges, SamplingArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
