// What every family does to single edges, a block of them at a time: the caller's bias b and weight
// w, and dropout's factor r,
//
//   alpha_ij = softmax_j(s_ij + b_ij)    out_i = sum_j r_ij w_ij alpha_ij v_j
//
// and backward, with ds, the gradient of s + b:
//
//   db_ij = ds_ij    dw_ij = sum over heads of alpha_ij r_ij <dO_i, v_j>
//
// None of it depends on the number of channels. b (1 or h elements an edge) and w (one) are brought
// into the order of the walk before it, and their gradients out of it afterwards, in loops of their
// own: an access at a random place among the walk's gathers of rows costs more.
#pragma once

#include <algorithm>

#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

constexpr i64 block = 32;  // edges that are taken at once

// to *= from, [count].
template <class A>
inline void multiply_lanes(A* __restrict to, const A* __restrict from, i64 count) {
  for_lanes(count, [=](i64 y) { to[y] *= from[y]; });
}

// The order in which a walk takes the edges: into each destination, or out of each source.
template <class I> struct Walk {
  Edges<I> graph;
  bool by_source;

  // The CSR position of the edge that is taken at `at`, and its place in the caller's order.
  i64 position(i64 at) const { return by_source ? i64(graph.csr2csc[at]) : at; }
  i64 edge(i64 at) const { return graph.perm[position(at)]; }
};

// Rows at the caller's places, in the order of the walk: those of a window are all found, and asked
// for, before the first is used.
template <class I, class Ask, class Use>
void for_each_edge_row(const Walk<I>& walk, i64 width, const Ask& ask, const Use& use) {
  constexpr i64 window = 128;
  const i64 e = walk.graph.e;
  for_each_row((e + window - 1) / window, window * (8 + width), [&](i64 k) {
    const i64 first = k * window, count = std::min(window, e - first);
    i64 edges[window];
    for (i64 t = 0; t < count; ++t) edges[t] = walk.edge(first + t);
    for (i64 t = 0; t < count; ++t) ask(edges[t]);
    for (i64 t = 0; t < count; ++t) use(first + t, edges[t]);
  });
}

// Rows [e, width] of the caller's in the order of a walk; nothing where there are none. Of single
// numbers the processor keeps enough on their way by itself.
template <class T, class I>
[[gnu::noinline]] Scratch<T> in_order(const Walk<I>& walk, const Table<const T>& from, i64 width) {
  if (!from) return nullptr;
  auto rows = scratch<T>(walk.graph.e * width);
  T* to = rows.get();
  if (width == 1)
    for_each_row(walk.graph.e, 8, [&](i64 at) { to[at] = *from[walk.edge(at)]; });
  else
    for_each_edge_row(
        walk, width, [&](i64 edge) { prefetch(from[edge], width); },
        [&](i64 at, i64 edge) { copy_heads(to + at * width, from[edge], width); });
  return rows;
}

// The way back.
template <class T, class I>
[[gnu::noinline]] void to_caller(const Walk<I>& walk, T* to, const T* from, i64 width) {
  if (!to) return;
  if (width == 1)
    for_each_row(walk.graph.e, 8, [&](i64 at) { to[walk.edge(at)] = from[at]; });
  else
    for_each_edge_row(
        walk, width, [&](i64 edge) { prefetch<1>(to + edge * width, width); },
        [&](i64 at, i64 edge) { copy_heads(to + edge * width, from + at * width, width); });
}

template <class T, class I> struct EdgeTerms {
  using A = acc_t<T>;

  Walk<I> walk;
  const T *bias, *weight;      // [e, bias_heads] and [e], in the order of the walk; null for none
  T *grad_bias, *grad_weight;  // likewise; null where they are not asked for
  i64 bias_heads, heads, lanes;
  Mask<A> mask;

  Buffer<A> factor, product;
  const A* drawn = nullptr;  // the factors of the block in hand

  bool has_factors() const { return mask || weight; }
  void prepare() {
    mask.prepare(block);
    if (weight) factor.resize(block * lanes);
    if (grad_weight) product.resize(block * lanes);
  }

  // Scores, [count, lanes], and the bias of each edge.
  [[gnu::noinline]] void add_bias(A* __restrict scores, i64 first, i64 count) const {
    for (i64 t = 0; t < count; ++t) {
      const T* own = bias + (first + t) * bias_heads;
      A* to = scores + t * lanes;
      if (bias_heads == heads) {
        axpy<0>(to, A(1), own, heads);
      } else {
        const A all = wide(*own);
        for_lanes(lanes, [=](i64 x) { to[x] += all; });
      }
    }
  }

  // r w of a block, [count, lanes].
  [[gnu::noinline]] const A* factors(i64 first, i64 count) {
    const A* kept = nullptr;
    if (mask) kept = mask.draw(count, [=, this](i64 t) { return walk.position(first + t); });
    if (!weight) return kept;
    for (i64 t = 0; t < count; ++t) {
      const A own = wide(weight[first + t]);
      const A* left = kept + t * lanes;
      A* to = factor.data() + t * lanes;
      if (kept)
        for_lanes(lanes, [=](i64 x) { to[x] = own * left[x]; });
      else
        for_lanes(lanes, [=](i64 x) { to[x] = own; });
    }
    return factor.data();
  }

  // <dO_i, v_j> of a block, [count, lanes], times r w.
  [[gnu::noinline]] void scale_products(A* products, i64 first, i64 count) {
    drawn = factors(first, count);
    if (grad_weight) {
      std::copy_n(products, count * lanes, product.data());
      if (mask) multiply_lanes(product.data(), mask.kept.data(), count * lanes);
    }
    multiply_lanes(products, drawn, count * lanes);
  }

  // alpha of the same block times r w; before that, dw.
  [[gnu::noinline]] void scale_weights(A* alpha, i64 first, i64 count) {
    if (grad_weight)
      for (i64 t = 0; t < count; ++t)
        grad_weight[first + t] =
            narrow<T>(dot<0>(alpha + t * lanes, product.data() + t * lanes, heads));
    multiply_lanes(alpha, drawn, count * lanes);
  }

  // db from ds, [count, lanes].
  [[gnu::noinline]] void store_bias_gradients(const A* grad_score, i64 first, i64 count) const {
    for (i64 t = 0; t < count; ++t) {
      const A* own = grad_score + t * lanes;
      T* to = grad_bias + (first + t) * bias_heads;
      if (bias_heads == heads)
        store(to, own, heads);
      else
        *to = narrow<T>(sum_of<0, A>(heads, [=](i64 x) { return own[x]; }));
    }
  }
};

// The terms of all edges, for the time of a walk.
template <class T, class I> class WalkTerms {
 public:
  template <class Args> explicit WalkTerms(const Args& args, bool by_source = false)
      : walk_{Edges<I>(args), by_source},
        bias_heads_(args.bias_heads),
        bias_(in_order<T, I>(walk_, args.bias, bias_heads_)),
        weight_(in_order<T, I>(walk_, args.edge_weight, 1)) {
    if (args.grad_bias) grad_bias_ = scratch<T>(walk_.graph.e * bias_heads_);
    if (args.grad_edge_weight) grad_weight_ = scratch<T>(walk_.graph.e);
  }

  template <class Args> EdgeTerms<T, I> terms(const Args& args) const {
    return {
        .walk = walk_,
        .bias = bias_.get(),
        .weight = weight_.get(),
        .grad_bias = grad_bias_.get(),
        .grad_weight = grad_weight_.get(),
        .bias_heads = bias_heads_,
        .heads = args.heads,
        .lanes = lanes_of(args.heads),
        .mask = mask_of<acc_t<T>>(args.seed, args.dropout, args.heads),
    };
  }

  // To be called after the walk.
  template <class Args> void store_gradients(const Args& args) const {
    to_caller(walk_, static_cast<T*>(args.grad_bias), grad_bias_.get(), bias_heads_);
    to_caller(walk_, static_cast<T*>(args.grad_edge_weight), grad_weight_.get(), 1);
  }

 private:
  Walk<I> walk_;
  i64 bias_heads_;
  Scratch<T> bias_, weight_, grad_bias_, grad_weight_;
};

}  // namespace gattn::GATTN_ISA
