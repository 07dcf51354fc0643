// These kernels sample neighbours for one hop: they draw some or all edges into each destination,
// with equal probability.
//
// The random number of edge e of a batch is philox(seed, e), so it does not depend on the thread.
// To draw k of d edges without replacement, Floyd's algorithm needs k random numbers. For top = d -
// k to d - 1, it draws a position from 0 to top; if this position was drawn before, it takes the
// position top instead. Bentley, Floyd, "Programming pearls: a sample of brilliance" (CACM 1987).
//
// One thread assigns batch indices to new sources, in the order in which they are drawn. All other
// work is parallel. For each edge, the kernel reads 8 bytes of col and perm at random positions and
// the batch index of the source, and writes 28 bytes.
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
  FIELD(i64, num_sources) FIELD(i32*, batch_index)     /* -1: not in the batch */    \
  FIELD(i64*, offsets) FIELD(i64*, edge_index) FIELD(i32*, sources)                  \
  FIELD(i64*, edges) FIELD(i64*, new_nodes) FIELD(i64*, num_new)
// clang-format on
GATTN_ARGS(SamplingArgs, SAMPLING_FIELDS);

// Number of rows whose edges are prefetched together.
constexpr i64 rows_per_batch = 64;
// The offset of a row is prefetched this number of rows before it is used.
constexpr i64 rows_ahead = 16;
// A batch index is prefetched this number of edges before it is used.
constexpr i64 edges_ahead = 32;
// For fewer edges than this, one thread is faster than several threads.
constexpr i64 max_serial_edges = 1 << 12;

template <class Function> void with_index(bool is_int64, Function&& function) {
  if (is_int64)
    function.template operator()<i64>();
  else
    function.template operator()<i32>();
}

// Compute the offset of the first sampled edge of each destination: [num_nodes + 1].
void sample_offsets(const SamplingArgs& args) {
  with_index(args.is_int64, [&]<class I>() {
    const I* rowptr = static_cast<const I*>(args.rowptr);
    args.offsets[0] = 0;
#pragma omp parallel for schedule(static) if (args.num_nodes > max_serial_edges)
    for (i64 r = 0; r < args.num_nodes; ++r) {
      const i64 i = args.nodes[r], degree = i64(rowptr[i + 1]) - i64(rowptr[i]);
      const bool all = args.num_neighbors < 0 || (!args.replace && degree <= args.num_neighbors);
      args.offsets[r + 1] = all ? degree : degree > 0 ? args.num_neighbors : 0;
    }
    for (i64 r = 0; r < args.num_nodes; ++r) args.offsets[r + 1] += args.offsets[r];
  });
}

// This class draws the random numbers of the edges. The numbers of consecutive edges are computed
// together in vector registers.
class Draws {
 public:
  explicit Draws(i64 seed) : seed_(seed) {}
  // Draw a random number from 0 to end - 1. The probability of each number differs from 1 / end by
  // less than 2^-32.
  i64 below(i64 end, i64 edge) {
    if (edge < first_ || edge >= first_ + window) draw(edge);
    return i64((std::uint64_t(numbers_[edge - first_]) * std::uint64_t(end)) >> 32);
  }

 private:
  static constexpr i64 window = 128;
  [[gnu::noinline]] void draw(i64 first) {
    first_ = first;
    for (i64 y = 0; y < window; y += draws_per_call) {
      Words words;
      philox(seed_, std::uint64_t(first + y), words);
      std::copy_n(words.first, draws_per_call, numbers_ + y);
    }
  }

  std::uint64_t seed_;
  i64 first_ = -window - 1;
  std::uint32_t numbers_[window];
};

// This class is the set of edges that were drawn from the current row, stored as a bit mask. The
// set is empty between two rows.
class PositionSet {
 public:
  void resize(i64 size) { words_.resize(size / 64 + 1); }
  // Insert a position into the set, and return true if it is new.
  bool insert(i64 position) {
    std::uint64_t& word = words_[position / 64];
    const std::uint64_t bit = std::uint64_t(1) << (position % 64);
    const bool is_new = !(word & bit);
    word |= bit;
    return is_new;
  }
  // Clear the word that contains a position. This is done for all drawn positions to make the set
  // empty.
  void clear(i64 position) { words_[position / 64] = 0; }

 private:
  Buffer<std::uint64_t> words_;
};

// Draw `count` edges of a row and write their CSR positions. The edges of the row begin at the
// position `begin`.
template <class I> void draw_row(const SamplingArgs& args, i64 begin, i64 degree, i64 slot,
                                 i64 count, Draws& draws, PositionSet& drawn, I* positions) {
  const i64 edge = args.edge_offset + slot;
  if (args.num_neighbors < 0 || (!args.replace && count == degree)) {
    for (i64 y = 0; y < count; ++y) positions[y] = I(begin + y);
  } else if (args.replace) {
    for (i64 y = 0; y < count; ++y) positions[y] = I(begin + draws.below(degree, edge + y));
  } else {
    for (i64 y = 0; y < count; ++y) {
      const i64 top = degree - count + y;
      i64 position = draws.below(top + 1, edge + y);
      if (!drawn.insert(position)) drawn.insert(position = top);
      positions[y] = I(begin + position);
    }
    for (i64 y = 0; y < count; ++y) drawn.clear(i64(positions[y]) - begin);
  }
}

// Draw the edges of the rows first to last - 1. Write the source and the caller's index of each
// edge, in the order in which the edges are drawn.
template <class I> void draw_rows(const SamplingArgs& args, i64 first, i64 last, Draws& draws,
                                  PositionSet& drawn, I* source, I* edge) {
  const I* rowptr = static_cast<const I*>(args.rowptr);
  const I* col = static_cast<const I*>(args.col);
  const I* perm = static_cast<const I*>(args.perm);
  for (i64 r = first; r < last; ++r) {
    if (r + rows_ahead < args.num_nodes) __builtin_prefetch(rowptr + args.nodes[r + rows_ahead]);
    const i64 begin = i64(rowptr[args.nodes[r]]), degree = i64(rowptr[args.nodes[r] + 1]) - begin;
    const i64 slot = args.offsets[r], count = args.offsets[r + 1] - slot;
    draw_row(args, begin, degree, slot, count, draws, drawn, edge + slot);
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

// Replace each source by its batch index. New sources get the next indices, in the order in which
// they are drawn.
template <class I> i64 index_sources(const SamplingArgs& args, i64 count, I* source) {
  i64 next = args.num_sources;
  for (i64 t = 0; t < count; ++t) {
    if (t + edges_ahead < count) __builtin_prefetch(args.batch_index + source[t + edges_ahead], 1);
    i32& index = args.batch_index[source[t]];
    if (index < 0) {
      index = i32(next);
      args.new_nodes[next++ - args.num_sources] = i64(source[t]);
    }
    source[t] = I(index);
  }
  return next - args.num_sources;
}

// Sort at most `width` different keys without branches, because branches would be mispredicted. The
// position of a key is the number of smaller keys.
template <int width> void sort_by_rank(std::uint64_t* keys, i64 count) {
  std::uint64_t input[width];
  for (i64 y = 0; y < width; ++y) input[y] = y < count ? keys[y] : ~std::uint64_t(0);
  for (i64 y = 0; y < count; ++y) {
    std::uint64_t rank = 0;
#pragma omp simd reduction(+ : rank)
    for (i64 x = 0; x < width; ++x) rank += input[x] < input[y];
    keys[rank] = input[y];
  }
}

inline void sort_keys(std::uint64_t* keys, i64 count) {
  if (count <= 8)
    sort_by_rank<8>(keys, count);
  else if (count <= 16)
    sort_by_rank<16>(keys, count);
  else
    std::sort(keys, keys + count);
}

// Write the edges of row r, sorted by source. Edges with the same source keep the order in which
// they were drawn.
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
    const i64 max_count =
        args.replace ? std::max(args.num_neighbors, args.max_degree) : args.max_degree;
    const auto source = scratch<I>(total), edge = scratch<I>(total);
    Allocation allocation;
#pragma omp parallel if (total > max_serial_edges)
    {
      Draws draws(args.seed);
      PositionSet drawn;
      const i64 rows = allocation.attempt([&] { drawn.resize(args.max_degree); }) ? n : 0;
#pragma omp for schedule(dynamic, 4)
      for (i64 first = 0; first < rows; first += rows_per_batch)
        draw_rows<I>(args, first, std::min(first + rows_per_batch, n), draws, drawn, source.get(),
                     edge.get());
    }
    allocation.check();
    *args.num_new = index_sources<I>(args, total, source.get());
#pragma omp parallel if (total > max_serial_edges)
    {
      Buffer<std::uint64_t> keys;
      const i64 rows = allocation.attempt([&] { keys.resize(max_count); }) ? n : 0;
#pragma omp for schedule(static)
      for (i64 r = 0; r < rows; ++r) write_row<I>(args, r, keys.data(), source.get(), edge.get());
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
