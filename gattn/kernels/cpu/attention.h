// This file contains the forward pass of attention with any score. The kernels in gat.cpp,
// dot_product.cpp and gatv2.cpp use it. The pass processes one destination after another, and reads
// each gathered row once. The derivation is in docs/kernels.md.
//
// The edges of a destination are processed in blocks with an online softmax. For each block, the
// running maximum m of the scores s is updated, the previous sums are rescaled, and the weighted
// values of the block are added:
//
//   m' = max(m, max s)    l = l exp(m - m') + sum exp(s - m')    acc = acc exp(m - m') + sum w v
//
// Here w is exp(s - m') after dropout, multiplied by the edge weight. At the end, acc is divided by
// l. The class Score computes the scores of a block, and this file adds the bias of each edge. A
// Score may also compute extra sums. It has the following members, where A is the accumulation
// type:
//   A; void prepare(); void begin(row)
//   void scores(first, count, A* s)   compute the scores of a block, [count, lanes]
//   void prefetch_row(row)            prefetch the memory of a row that is processed soon
//   value_prefetch_distance           prefetch distance of values, smaller if scores gather, too
//   i64 extra_size()                  number of extra sums per head, without the mass
//   bool has_extra(row)               whether this row has extra sums
//   void accumulate_extra(A* extra, A* mass, first, count, before, after, rows)
//                                     add a block to the extra sums and to the mass, with the
//                                     weights before and after dropout and edge weights
//   void end(A* acc, const A* extra, const A* mass, const A* inverse, row)
//                                     write the extra sums, or add to the output of the row
#pragma once

#include "edge_terms.h"
#include "row_products.h"

namespace gattn::GATTN_ISA {

// A row is prefetched this number of edges before it is used.
constexpr i64 prefetch_distance = 16;

// Return the number that is subtracted from the scores before exp: their maximum, or 0 if all
// scores are -inf.
template <class A> inline A safe_max(A m) { return m == -infinity<A> ? A(0) : m; }

// Return 1 / sum. If the sum is zero, as in a row without edges, return 0.
template <class A> inline A safe_inverse(A sum) { return sum == 0 ? A(0) : 1 / sum; }

// Read the softmax statistics that forward stored for a row: the maximum score and 1 / sum of
// exponentials, each [lanes].
template <class A> inline void load_softmax(A* shift, A* inverse, const A* row_max,
                                            const A* row_sum, i64 row, i64 heads, i64 lanes) {
  load_heads(shift, row_max + row * heads, heads, lanes);
  load_heads(inverse, row_sum + row * heads, heads, lanes);
  for_lanes(lanes, [=](i64 x) { inverse[x] = safe_inverse(inverse[x]); });
}

// Raise the running maxima m to at least `other`, and rescale the sums l and mass accordingly. All
// other sums of head x must be multiplied by factor[x]. Return true if any factor is not 1.
template <class A>
inline bool softmax_raise(A* m, A* l, A* mass, const A* other, A* factor, i64 heads) {
  bool scales = false;
  for (i64 x = 0; x < heads; ++x) {
    factor[x] = 1;
    if (!(other[x] > m[x])) continue;
    const A before = m[x];
    m[x] = other[x];
    if (l[x] == 0) continue;
    factor[x] = exp_below(before - other[x]);
    l[x] *= factor[x];
    mass[x] *= factor[x];
    scales = true;
  }
  return scales;
}

// Set `to`, [lanes], to the maxima of the scores, [count, lanes], of each head.
template <class A> inline void max_over_edges(A* to, const A* scores, i64 count, i64 lanes) {
  fill(to, -infinity<A>, lanes);
  reduce_lanes(to, count, lanes, [=](A max, i64 y) { return scores[y] > max ? scores[y] : max; });
}

// Process a block of edges in the online softmax. The running maxima m are updated, the scores,
// [count, lanes], are replaced by exp(scores - m), and the sums of the results are added to l.
// Return true if the sums of previous blocks must be rescaled.
template <class A> [[gnu::noinline]] bool online_softmax_step(A* scores, i64 count, i64 heads,
                                                              i64 lanes, A* m, A* l, A* mass,
                                                              A* factor, A* scratch) {
  max_over_edges(scratch, scores, count, lanes);
  const bool scales = softmax_raise(m, l, mass, scratch, factor, heads);
  A* shift = scratch;
  for_lanes(lanes, [=](i64 x) { shift[x] = safe_max(m[x]); });
  for (i64 t = 0; t < count; ++t) {
    A* row = scores + t * lanes;
    for_lanes(lanes, [=](i64 x) { row[x] -= shift[x]; });
  }
  for_lanes(count * lanes, [=](i64 y) { scores[y] = exp_below(scores[y]); });
  fill(scratch, A(0), lanes);
  reduce_lanes(scratch, count, lanes, [=](A sum, i64 y) { return sum + scores[y]; });
  for_lanes(lanes, [=](i64 x) { l[x] += scratch[x]; });
  return scales;
}

// Process the first block of a row in the online softmax: set m to the maxima of the scores,
// replace the scores by exp(scores - m), and set l to the sums of the results.
template <class A>
[[gnu::noinline]] void softmax_begin(A* scores, i64 count, i64 lanes, A* m, A* l) {
  max_over_edges(m, scores, count, lanes);
  for (i64 x = 0; x < lanes; x += lane) {
    A shift[lane], sum[lane];
#pragma omp simd
    for (i64 k = 0; k < lane; ++k) shift[k] = safe_max(m[x + k]), sum[k] = 0;
    for (i64 t = 0; t < count; ++t) {
      A* score = scores + t * lanes + x;
#pragma omp simd
      for (i64 k = 0; k < lane; ++k) score[k] = exp_below(score[k] - shift[k]);
#pragma omp simd
      for (i64 k = 0; k < lane; ++k) sum[k] += score[k];
    }
#pragma omp simd
    for (i64 k = 0; k < lane; ++k) l[x + k] = sum[k];
  }
}

// Replace each of the `count` numbers y by exp(y).
template <class A> [[gnu::noinline]] void exponentials(A* y, i64 count) {
  for_lanes(count, [=](i64 k) { y[k] = exp_below(y[k]); });
}

// This class computes the gradients of the scores in a pass by destination. One row is processed at
// a time, in blocks of edges.
template <class T> struct ScoreGradients {
  using A = acc_t<T>;

  Table<const T> value, grad_out;
  const A *out, *row_max, *row_sum;
  T* grad_edge_attr;
  i64 heads, lanes, channels, features;
  A scale;
  EdgeValues<A> edge_values;
  EdgeTerms<T> terms;

  // For each edge of a block, [count, lanes]: the score, which is replaced by the product of alpha,
  // dropout factor and edge weight, and <dO_i, v_j>, which is replaced by the gradient.
  Buffer<A> weights, grads;
  Buffer<A> g, delta, shift, inverse;
  const A* grad_row = nullptr;
  // Rows of values of a block of edges and of later edges.
  Buffer<const T*> rows, ahead;

  i64 size() const { return heads * channels; }
  void prepare() {
    terms.prepare();
    for (auto* numbers : {&weights, &grads}) numbers->resize(block * lanes);
    for (auto* numbers : {&delta, &shift, &inverse}) numbers->resize(lanes);
    g.resize(size()), rows.resize(block), ahead.resize(block);
  }
  void prefetch_row(i64 row) const {
    prefetch(grad_out[row], size());
    prefetch(out + row * size(), size());
  }

  void begin(i64 row) {
    grad_row = widened(g.data(), grad_out[row], size());
    // D_i is summed in the same order as <dO_i, v_j>. If a row has a single edge and no dropout,
    // the difference of the two numbers is therefore exactly zero.
    const A* out_row = out + row * size();
    dot_rows<A>(delta.data(), lanes, grad_row, &out_row, nullptr, 1, heads, channels);
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads, lanes);
  }

  // Add the biases to the scores of a block of edges, and compute <dO_i, v_j>.
  template <class I> void inner_products(const Edges<I>& graph, i64 first, i64 count) {
    if (terms.bias) terms.add_bias(weights.data(), first, count);
    for (i64 t = 0; t < count; ++t) {
      const i64 next = std::min(first + t + prefetch_distance, graph.e - 1);
      rows[t] = value[graph.col[first + t]], ahead[t] = value[graph.col[next]];
      if (grad_edge_attr) prefetch<1>(grad_edge_attr + graph.perm[next] * features, features);
    }
    dot_rows(grads.data(), lanes, grad_row, rows.data(), ahead.data(), count, heads, channels,
             graph.is_large);
  }

  // Compute the weights of a block and the gradients of the scaled scores, and store both for the
  // pass by source.
  void compute(i64 first, i64 count) {
    const A *row_shift = shift.data(), *inv = inverse.data(), *row_delta = delta.data();
    for (i64 t = 0; t < count; ++t) {
      A* exponent = weights.data() + t * lanes;
      for_lanes(lanes, [=](i64 x) { exponent[x] -= row_shift[x]; });
    }
    exponentials(weights.data(), count * lanes);
    if (terms.has_factors()) terms.scale_products(grads.data(), first, count);
    for (i64 t = 0; t < count; ++t) {
      A *p = weights.data() + t * lanes, *grad_score = grads.data() + t * lanes;
      for_lanes(lanes, [=](i64 x) {
        p[x] *= inv[x];
        grad_score[x] = p[x] * (grad_score[x] - row_delta[x]);
      });
    }
    if (terms.bias.gradient) terms.store_bias_gradients(grads.data(), first, count);
    A* grad_scores = grads.data();
    for_lanes(count * lanes, [=, factor = scale](i64 y) { grad_scores[y] *= factor; });
    if (terms.has_factors()) terms.scale_weights(weights.data(), first, count);
    for (i64 t = 0; t < count; ++t)
      edge_values.store(first + t, weights.data() + t * lanes, grad_scores + t * lanes);
  }
};

template <class T, class Args> ScoreGradients<T> score_gradients(const Args& args,
                                                                 const Rows& value, double scale,
                                                                 acc_t<T>* numbers) {
  using A = acc_t<T>;
  return {
      .value = value,
      .grad_out = args.grad_out,
      .out = static_cast<const A*>(args.out_acc),
      .row_max = static_cast<const A*>(args.row_max),
      .row_sum = static_cast<const A*>(args.row_sum),
      .grad_edge_attr = static_cast<T*>(args.grad_edge_attr),
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .channels = args.value_channels,
      .features = args.features,
      .scale = A(scale),
      .edge_values = {numbers, args.heads},
      .terms = terms_of<T>(args),
  };
}

template <class Score, class T, class I> struct AttentionForward {
  using A = acc_t<T>;

  Score score;
  Edges<I> graph;
  Table<const T> value;
  T* out;
  A *out_acc, *row_max, *row_sum;
  i64 heads, lanes, value_heads, channels;
  EdgeTerms<T> terms;

  Buffer<A> scores, weighted, block_sum, factor;
  // Rows of values of a block of edges, and pointers to their weights.
  Buffer<const T*> rows;
  Buffer<const A*> weights;

  i64 extra_size() const { return score.extra_size(); }
  i64 state_size() const { return 3 * lanes + heads * (channels + extra_size()); }
  i64 shared_size() const { return 0; }

  void prepare() {
    scores.resize(block * lanes);
    weighted.resize(terms.has_factors() ? block * lanes : 0);
    terms.prepare();
    block_sum.resize(lanes), factor.resize(lanes);
    rows.resize(block), weights.resize(block);
    const A* weight = terms.has_factors() ? weighted.data() : scores.data();
    point_to_rows(weights.data(), weight, block, lanes);
    score.prepare();
  }

  void set_end(i64 last) {
    terms.set_end(last);
    if constexpr (requires { score.set_end(last); }) score.set_end(last);
  }

  void prefetch_row(i64 row) const {
    score.prefetch_row(row);
    prefetch<1>(out + row * heads * channels, heads * channels);
    if (out_acc) prefetch<1>(out_acc + row * heads * channels, heads * channels);
  }

  // The state of a row contains the running maximum and sum, the mass, the sums of values, and the
  // extra sums of the Score.
  struct View {
    A *m, *l, *mass, *acc, *extra;
  };
  View view(const A* state) const {
    A* m = const_cast<A*>(state);
    A* acc = m + 3 * lanes;
    return {m, m + lanes, m + 2 * lanes, acc, acc + heads * channels};
  }

  void begin(A* state) const {
    fill(state, -infinity<A>, lanes);
    fill(state + lanes, A(0), state_size() - lanes);
  }

  void add_edges(A* state, A*, i64 row, i64 first, i64 last) {
    const View v = view(state);
    const bool has_extra = score.has_extra(row);
    score.begin(row);
    fill(v.mass, A(0), lanes);
    if (has_extra) fill(v.extra, A(0), heads * extra_size());
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      const bool is_first = at == first;
      for (i64 t = 0; t < count; ++t) {
        rows[t] = value[graph.col[at + t]];
        const i64 next = std::min(at + t + Score::value_prefetch_distance, graph.e - 1);
        prefetch_from(graph.is_large, value[graph.col[next]], value_heads * channels);
      }
      score.scores(at, count, scores.data());
      if (terms.bias) terms.add_bias(scores.data(), at, count);
      if (is_first)
        softmax_begin(scores.data(), count, lanes, v.m, v.l);
      else if (online_softmax_step(scores.data(), count, heads, lanes, v.m, v.l, v.mass,
                                   factor.data(), block_sum.data()))
        scale_sums(v);
      if (terms.has_factors()) {
        const A *weight = scores.data(), *factors = terms.factors(at, count);
        A* product = weighted.data();
        for_lanes(count * lanes, [=](i64 y) { product[y] = weight[y] * factors[y]; });
      }
      add_weighted_rows(v.acc, is_first, count, heads, value_heads, channels, weights.data(),
                        rows.data());
      if (has_extra)
        score.accumulate_extra(v.extra, v.mass, at, count, scores.data(), weights[0], rows.data());
    }
  }

  // Merge the states of two splits of a row, so that the result is the softmax over the edges of
  // both.
  void merge(A* into, const A* from) {
    const View v = view(into), w = view(from);
    if (softmax_raise(v.m, v.l, v.mass, w.m, factor.data(), heads)) scale_sums(v);
    for (i64 x = 0; x < heads; ++x) {
      const A scale = exp_below(w.m[x] - safe_max(v.m[x]));
      v.l[x] += scale * w.l[x];
      axpy<0>(v.acc + x * channels, scale, w.acc + x * channels, channels);
      axpy<0>(v.extra + x * extra_size(), scale, w.extra + x * extra_size(), extra_size());
      v.mass[x] += scale * w.mass[x];
    }
  }

  void end(const A* state, i64 row) {
    const View v = view(state);
    A* inverse = factor.data();
    for_lanes(lanes, [=](i64 x) { inverse[x] = safe_inverse(v.l[x]), v.m[x] = safe_max(v.m[x]); });
    copy_heads(row_max + row * heads, v.m, heads);
    copy_heads(row_sum + row * heads, v.l, heads);
    scale_heads(v.acc, inverse, heads, channels);
    if (out_acc) load(out_acc + row * heads * channels, v.acc, heads * channels);
    score.end(v.acc, v.extra, v.mass, inverse, row);
    store(out + row * heads * channels, v.acc, heads * channels);
  }

 private:
  void scale_sums(const View& v) {
    scale_heads<A>(v.acc, factor.data(), heads, channels);
    scale_heads<A>(v.extra, factor.data(), heads, extra_size());
  }
};

template <class T, class I, class Score, class Args>
void attend(const Score& score, const Args& args, const Rows& value, i64 value_heads,
            i64 value_channels) {
  using A = acc_t<T>;
  const Edges<I> edges(args);
  const AttentionForward<Score, T, I> body{
      .score = score,
      .graph = edges,
      .value = value,
      .out = static_cast<T*>(args.out),
      .out_acc = static_cast<A*>(args.out_acc),
      .row_max = static_cast<A*>(args.row_max),
      .row_sum = static_cast<A*>(args.row_sum),
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .value_heads = value_heads,
      .channels = value_channels,
      .terms = terms_of<T>(args),
  };
  walk_rows(edges.rowptr, edges.n, args.heads * (value_channels + 8), body);
}

}  // namespace gattn::GATTN_ISA
