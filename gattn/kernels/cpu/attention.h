// Forward of any attention: one walk over the rows, each gathered row read once.
//
// Edges are taken in blocks. A Score fills the block's scores; their maximum joins the running
// one, what was summed so far is scaled to it, and the block's values are added:
//
//   m' = max(m, max s)    l = l exp(m - m') + sum exp(s - m')    acc = acc exp(m - m') + sum w v
//
// with w = exp(s - m') after dropout. At the end out = acc / l. A Score has
//   A; void prepare(); void begin(row); void scores(first, count, A* s)
//   i64 extra_size()     numbers per head it sums beside the values (with one more, the mass)
//   void take(A* extra, A* mass, first, count, before, after, voff)   add a block to them
//   void end(const A* extra, const A* mass, const A* inverse, row)   write them
#pragma once

#include <vector>

#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

constexpr i64 block = 32;
constexpr i64 ahead = 8;  // rows between asking for a gathered row and using it

template <class Score, class T, class I, int C> struct Attention {
  using A = acc_t<T>;

  Score score;
  const I* col;
  Table<const T> value;
  T* out;
  A *row_max, *row_sum;
  i64 heads, value_heads, channels;
  Dropout dropout;

  std::vector<A> s, after, largest, scale;
  std::vector<i64> voff;

  i64 c() const { return width<C>(channels); }
  i64 extra_size() const { return score.extra_size(); }
  i64 state_size() const { return heads * (2 + c() + extra_size() + 1); }
  i64 shared_size() const { return 0; }

  void prepare() {
    s.resize(block * heads);
    after.resize(dropout ? block * heads : 0);
    largest.resize(heads);
    scale.resize(heads);
    voff.resize(heads);
    for (i64 x = 0; x < heads; ++x) voff[x] = (x % value_heads) * c();
    score.prepare();
  }

  struct View { A *m, *l, *acc, *extra, *mass; };
  View view(const A* state) const {
    A* m = const_cast<A*>(state);
    A* acc = m + 2 * heads;
    A* extra = acc + heads * c();
    return {m, m + heads, acc, extra, extra + heads * extra_size()};
  }

  void begin(A* state) const {
    fill(state, -infinity<A>, heads);
    fill(state + heads, A(0), state_size() - heads);
  }

  void edges(A* state, A*, i64 row, i64 first, i64 last) {
    const View v = view(state);
    score.begin(row);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      block_maximum(count);
      raise(v, largest.data());
      exponentials(v, count);
      const A* weight = s.data();
      if (dropout) {
        std::copy_n(s.data(), count * heads, after.data());
        for (i64 t = 0; t < count; ++t) dropout.apply(after.data() + t * heads, at + t, heads);
        weight = after.data();
      }
      for (i64 t = 0; t < count; ++t) {
        if (at + t + ahead < last) prefetch(value[col[at + t + ahead]], value_heads * c());
        const T* row_of_value = value[col[at + t]];
        for (i64 x = 0; x < heads; ++x)
          axpy<C>(v.acc + x * c(), weight[t * heads + x], row_of_value + voff[x], c());
      }
      score.take(v.extra, v.mass, at, count, s.data(), weight, voff.data());
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
      for (i64 k = 0; k < c(); ++k) v.acc[x * c() + k] *= inverse;
      row_max[row * heads + x] = v.m[x] == -infinity<A> ? A(0) : v.m[x];
      row_sum[row * heads + x] = v.l[x];
    }
    store(out + row * heads * c(), v.acc, heads * c());
    score.end(v.extra, v.mass, scale.data(), row);
  }

 private:
  void block_maximum(i64 count) {
    fill(largest.data(), -infinity<A>, heads);
    for (i64 t = 0; t < count; ++t) {
      const A* row = s.data() + t * heads;
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) largest[x] = row[x] > largest[x] ? row[x] : largest[x];
    }
  }

  // Let the running maximum be at least `other`, and scale the sums to it.
  void raise(const View& v, const A* other) {
    bool higher = false;
    for (i64 x = 0; x < heads; ++x) higher |= other[x] > v.m[x];
    if (!higher) return;
    for (i64 x = 0; x < heads; ++x) {
      if (!(other[x] > v.m[x])) continue;
      const A factor = exp_below(v.m[x] - other[x]);
      v.m[x] = other[x];
      if (v.l[x] == 0) continue;
      v.l[x] *= factor;
      for (i64 k = 0; k < c(); ++k) v.acc[x * c() + k] *= factor;
      for (i64 k = 0; k < extra_size(); ++k) v.extra[x * extra_size() + k] *= factor;
      v.mass[x] *= factor;
    }
  }

  void exponentials(const View& v, i64 count) {
    A* shift = scale.data();
    for (i64 x = 0; x < heads; ++x) shift[x] = v.m[x] == -infinity<A> ? A(0) : v.m[x];
    A* flat = s.data();
    for (i64 t = 0; t < count; ++t)
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) flat[t * heads + x] -= shift[x];
#pragma omp simd
    for (i64 y = 0; y < count * heads; ++y) flat[y] = exp_below(flat[y]);
    A* sum = largest.data();
    fill(sum, A(0), heads);
    for (i64 t = 0; t < count; ++t) add(sum, flat + t * heads, heads);
    add(v.l, sum, heads);
  }
};

// The softmax weights of a block once more, from the row's statistics.
struct Softmax {
  template <class A> static A inverse(A sum) { return sum == 0 ? A(0) : 1 / sum; }
};

template <class Score, class T, class I, int C>
void attend(const Score& score, const LayoutArgs& layout, const Rows& value, void* out, void* row_max,
            void* row_sum, i64 heads, i64 value_heads, i64 channels, const DropoutArgs& dropout) {
  using A = acc_t<T>;
  const Edges<I> edges(layout);
  Attention<Score, T, I, C> body{score, edges.col, value, static_cast<T*>(out),
      static_cast<A*>(row_max), static_cast<A*>(row_sum), heads, value_heads, channels,
      dropout_of(dropout), {}, {}, {}, {}, {}};
  walk_rows(edges.rowptr, edges.n, heads * (channels + 8), body);
}

}  // namespace gattn::GATTN_ISA
