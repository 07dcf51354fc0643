// Forward of any attention: one walk over the rows, each gathered row read once.
//
// Edges are taken in blocks. A Score fills the block's scores; their maximum joins the running
// one, what was summed so far is scaled to it, and the block's values are added:
//
//   m' = max(m, max s)    l = l exp(m - m') + sum exp(s - m')    acc = acc exp(m - m') + sum w v
//
// with w = exp(s - m') after dropout. At the end out = acc / l. A Score has
//   A; void prepare(); void begin(row); void scores(first, count, A* s)   s is [count, lanes]
//   values_ahead         rows of values to ask for beforehand: fewer where it gathers rows, too
//   i64 extra_size()     numbers per head it sums beside the values (with one more, the mass)
//   void take(A* extra, A* mass, first, count, before, after, rows, voff)   add a block to them
//   void end(A* acc, const A* extra, const A* mass, const A* inverse, row)   write them, or add to
//                        the row's output before it is written
#pragma once

#include <vector>

#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

constexpr i64 block = 32;
constexpr i64 ahead = 16;  // rows between asking for a gathered row and using it

template <class Score, class T, class I, int C> struct Attention {
  using A = acc_t<T>;

  Score score;
  const I* col;
  Table<const T> value;
  T* out;
  A *out_acc, *row_max, *row_sum;
  i64 num_edges, heads, lanes, value_heads, channels;
  Mask<A> mask;

  std::vector<A> s, after, largest, scale;
  std::vector<i64> voff;
  std::vector<const T*> rows;

  i64 c() const { return width<C>(channels); }
  i64 extra_size() const { return score.extra_size(); }
  i64 state_size() const { return 3 * lanes + heads * (c() + extra_size()); }
  i64 shared_size() const { return 0; }

  void prepare() {
    s.resize(block * lanes);
    after.resize(mask ? block * lanes : 0);
    mask.prepare(block);
    largest.resize(lanes);
    scale.resize(lanes);
    voff.resize(heads);
    rows.resize(block);
    for (i64 x = 0; x < heads; ++x) voff[x] = (x % value_heads) * c();
    score.prepare();
  }

  struct View { A *m, *l, *mass, *acc, *extra; };
  View view(const A* state) const {
    A* m = const_cast<A*>(state);
    A* acc = m + 3 * lanes;
    return {m, m + lanes, m + 2 * lanes, acc, acc + heads * c()};
  }

  void begin(A* state) const {
    fill(state, -infinity<A>, lanes);
    fill(state + lanes, A(0), state_size() - lanes);
  }

  void edges(A* state, A*, i64 row, i64 first, i64 last) {
    const View v = view(state);
    score.begin(row);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) rows[t] = value[col[at + t]];
      score.scores(at, count, s.data());
      block_maximum(count);
      raise(v, largest.data());
      exponentials(v, count);
      const A* weight = s.data();
      if (mask) {
        const A* kept = mask.draw(count, [=](i64 t) { return at + t; });
        A* left = after.data();
        for_lanes(count * lanes, [=](i64 y) { left[y] = weight[y] * kept[y]; });
        weight = left;
      }
      for (i64 t = 0; t < count; ++t) {
        const i64 next = at + t + Score::values_ahead;
        if (next < num_edges) prefetch(value[col[next]], value_heads * c());
        for (i64 x = 0; x < heads; ++x)
          axpy<C>(v.acc + x * c(), weight[t * lanes + x], rows[t] + voff[x], c());
      }
      score.take(v.extra, v.mass, at, count, s.data(), weight, rows.data(), voff.data());
    }
  }

  void merge(A* into, const A* from) {
    const View v = view(into), w = view(from);
    raise(v, w.m);
    for (i64 x = 0; x < heads; ++x) {
      const A shift = v.m[x] == -infinity<A> ? A(0) : v.m[x];
      const A factor = exp_below(w.m[x] - shift);
      v.l[x] += factor * w.l[x];
      axpy<C>(v.acc + x * c(), factor, w.acc + x * c(), c());
      axpy<0>(v.extra + x * extra_size(), factor, w.extra + x * extra_size(), extra_size());
      v.mass[x] += factor * w.mass[x];
    }
  }

  void end(const A* state, i64 row) {
    const View v = view(state);
    for (i64 x = 0; x < heads; ++x) {
      const A inverse = v.l[x] == 0 ? A(0) : 1 / v.l[x];
      scale[x] = inverse;
      scale_by<C>(v.acc + x * c(), inverse, c());
      row_max[row * heads + x] = v.m[x] == -infinity<A> ? A(0) : v.m[x];
      row_sum[row * heads + x] = v.l[x];
    }
    if (out_acc) load(out_acc + row * heads * c(), v.acc, heads * c());
    score.end(v.acc, v.extra, v.mass, scale.data(), row);
    store(out + row * heads * c(), v.acc, heads * c());
  }

 private:
  void block_maximum(i64 count) {
    reduce_lanes(largest.data(), -infinity<A>, s.data(), count, lanes,
                 [](A most, A own) { return own > most ? own : most; });
  }

  // Let the running maximum be at least `other`, and scale the sums to it.
  void raise(const View& v, const A* other) {
    for (i64 x = 0; x < heads; ++x) {
      if (!(other[x] > v.m[x])) continue;
      const A before = v.m[x];
      v.m[x] = other[x];
      if (v.l[x] == 0) continue;
      const A factor = exp_below(before - other[x]);
      v.l[x] *= factor;
      v.mass[x] *= factor;
      scale_by<C>(v.acc + x * c(), factor, c());
      scale_by<0>(v.extra + x * extra_size(), factor, extra_size());
    }
  }

  void exponentials(const View& v, i64 count) {
    A *shift = scale.data(), *flat = s.data(), *sum = largest.data();
    for_lanes(lanes, [=](i64 x) { shift[x] = v.m[x] == -infinity<A> ? A(0) : v.m[x]; });
    for (i64 t = 0; t < count; ++t) {
      A* row = flat + t * lanes;
      for_lanes(lanes, [=](i64 x) { row[x] -= shift[x]; });
    }
    for_lanes(count * lanes, [=](i64 y) { flat[y] = exp_below(flat[y]); });
    reduce_lanes(sum, A(0), flat, count, lanes, [](A all, A own) { return all + own; });
    add_lanes(v.l, sum, lanes);
  }
};

// The softmax weights of a block once more, from the row's statistics.
struct Softmax {
  template <class A> static A inverse(A sum) { return sum == 0 ? A(0) : 1 / sum; }
};

template <class T, class I, int C, class Score, class Args>
void attend(const Score& score, const Args& args, const Rows& value, i64 value_heads,
            i64 value_channels) {
  using A = acc_t<T>;
  const Edges<I> edges(args);
  const Attention<Score, T, I, C> body{
      .score = score,
      .col = edges.col,
      .value = value,
      .out = static_cast<T*>(args.out),
      .out_acc = static_cast<A*>(args.out_acc),
      .row_max = static_cast<A*>(args.row_max),
      .row_sum = static_cast<A*>(args.row_sum),
      .num_edges = edges.e,
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .value_heads = value_heads,
      .channels = value_channels,
      .mask = mask_of<A>(args.seed, args.dropout, args.heads),
  };
  walk_rows(edges.rowptr, edges.n, args.heads * (value_channels + 8), body);
}

}  // namespace gattn::GATTN_ISA
