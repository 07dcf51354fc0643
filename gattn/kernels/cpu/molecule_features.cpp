// These kernels compare the count vectors of molecules, and follow molecules through decision
// trees.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "args.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

using i32 = std::int32_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;

// clang-format off
#define COUNT_TANIMOTO_FIELDS(FIELD)                                    \
  FIELD(const u8*, counts) FIELD(const u8*, by_column)                  \
  FIELD(const float*, totals) FIELD(float*, out)                        \
  FIELD(i64, num_queries) FIELD(i64, num_columns) FIELD(i64, num_rows)
#define TREE_LEAVES_FIELDS(FIELD)                                       \
  FIELD(const float*, x) FIELD(const i32*, feature)                     \
  FIELD(const float*, threshold) FIELD(const i32*, right)               \
  FIELD(const i64*, roots) FIELD(i64*, out)                             \
  FIELD(i64, num_molecules) FIELD(i64, width) FIELD(i64, num_trees)
// clang-format on
GATTN_ARGS(CountTanimotoArgs, COUNT_TANIMOTO_FIELDS);
GATTN_ARGS(TreeLeavesArgs, TREE_LEAVES_FIELDS);

// Number of table rows that are compared at once; their sums stay in the cache of the first level.
constexpr i64 block_rows = 512;
// A sum of this number of counts, each at most 255, fits into 16 bits.
constexpr i64 short_sum = 256;
// Number of molecules that follow one tree before the next tree is read.
constexpr i64 block_molecules = 64;
// Number of molecules that take a step together, so that their memory accesses overlap.
constexpr i64 lanes = 8;

// Compute the sum of the minima over the sum of the maxima of two count vectors, for each query and
// each row of the table. Most counts of a query are zero, so only the others are read.
void count_tanimoto(const CountTanimotoArgs& args) {
  const i64 n = args.num_queries, d = args.num_columns, m = args.num_rows;
#pragma omp parallel if (n * m > min_parallel_work)
  {
    std::vector<i64> columns;
    std::array<u16, block_rows> sums;
    std::array<float, block_rows> least;
#pragma omp for schedule(static)
    for (i64 i = 0; i < n; ++i) {
      const u8* counts = args.counts + i * d;
      columns.clear();
      i64 total = 0;
      for (i64 column = 0; column < d; ++column) {
        if (counts[column] == 0) continue;
        columns.push_back(column);
        total += counts[column];
      }
      const i64 used = i64(columns.size());
      for (i64 begin = 0; begin < m; begin += block_rows) {
        const i64 size = std::min(block_rows, m - begin);
        std::fill_n(least.data(), size, 0.0f);
        for (i64 first = 0; first < used; first += short_sum) {
          std::fill_n(sums.data(), size, u16(0));
          for (i64 t = first; t < std::min(used, first + short_sum); ++t) {
            const u8* row = args.by_column + columns[t] * m + begin;
            const u8 count = counts[columns[t]];
            u16* sum = sums.data();
#pragma omp simd
            for (i64 j = 0; j < size; ++j) sum[j] += row[j] < count ? row[j] : count;
          }
          for (i64 j = 0; j < size; ++j) least[j] += sums[j];
        }
        const float* totals = args.totals + begin;
        float* out = args.out + i * m + begin;
        for (i64 j = 0; j < size; ++j)
          out[j] = least[j] / std::max(float(total) + totals[j] - least[j], 1.0f);
      }
    }
  }
}

// Find the leaf of each molecule in each tree. The left child of a node is the next node; the
// feature of a leaf is negative.
void tree_leaves(const TreeLeavesArgs& args) {
  const i64 n = args.num_molecules, trees = args.num_trees;
#pragma omp parallel for schedule(static) if (n * trees > min_parallel_work)
  for (i64 begin = 0; begin < n; begin += block_molecules) {
    const i64 end = std::min(begin + block_molecules, n);
    for (i64 tree = 0; tree < trees; ++tree) {
      for (i64 first = begin; first < end; first += lanes) {
        const i64 count = std::min(lanes, end - first);
        std::array<i64, lanes> node;
        node.fill(args.roots[tree]);
        for (bool moved = true; moved;) {
          moved = false;
          for (i64 lane = 0; lane < count; ++lane) {
            const i64 at = node[lane], feature = args.feature[at];
            const float value = args.x[(first + lane) * args.width + std::max<i64>(feature, 0)];
            const i64 next = value <= args.threshold[at] ? at + 1 : args.right[at];
            node[lane] = feature < 0 ? at : next;
            moved |= feature >= 0;
          }
        }
        for (i64 lane = 0; lane < count; ++lane)
          args.out[(first + lane) * trees + tree] = node[lane];
      }
    }
  }
}

}  // namespace

std::span<const Kernel> molecule_features_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(count_tanimoto, CountTanimotoArgs),
      GATTN_KERNEL(tree_leaves, TreeLeavesArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
