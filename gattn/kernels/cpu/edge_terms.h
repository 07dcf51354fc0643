// Per-edge terms of every family, a block of edges at a time: the caller's bias b and weight w, and
// the dropout factor r,
//
//   alpha_ij = softmax_j(s_ij + b_ij)    out_i = sum_j r_ij w_ij alpha_ij v_j
//
// and backward, with ds, the gradient of s + b:
//
//   db_ij = ds_ij    dw_ij = sum over heads of alpha_ij r_ij <dO_i, v_j>
//
// None of this depends on the number of channels. b (1 or h elements per edge) and w (one) are
// gathered into the order of the walk, one window of edges at a time, and their gradients are
// scattered back, in separate loops: random accesses between the walk's row gathers cost more, and
// a copy of all edges needs new memory. A gradient overwrites the value in the window, which the
// walk has read by then.
#pragma once

#include <algorithm>

#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

constexpr i64 block = 32;  // edges per block

// to *= from, [count].
template <class A>
inline void multiply_lanes(A* __restrict to, const A* __restrict from, i64 count) {
  for_lanes(count, [=](i64 y) { to[y] *= from[y]; });
}

// The order of edges in a walk: by destination or by source.
template <class I> struct Walk {
  Edges<I> graph;
  bool by_source;

  // CSR position of the edge at step `at`, and its position in the caller's order.
  i64 position(i64 at) const { return by_source ? i64(graph.csr2csc[at]) : at; }
  i64 edge(i64 at) const { return graph.perm[position(at)]; }
};

// Rows of the caller's edges, [e, width], in the order of a walk: the rows of a window are
// contiguous, and are written back with the values that replaced them.
template <class T, class I> struct EdgeRows {
  static constexpr i64 window = split_edges;  // a row that is split also leaves the window

  Walk<I> walk;
  Table<const T> from;
  T* back;  // null if nothing is written back
  i64 width;

  Buffer<T> rows;
  i64 first = 0, used = 0, last = 0;  // the window, and the progress of the walk
  i64 end = 0;                        // end of the edges that follow

  explicit operator bool() const { return bool(from); }
  void prepare() {
    if (from) rows.resize(window * width);
  }

  // Rows of edges [at, at + count); valid until the next call.
  T* of(i64 at, i64 count) {
    if (at < first || at + count > last) bring(at, count);
    used = at + count;
    return rows.data() + (at - first) * width;
  }

  [[gnu::noinline]] void send() {
    if (back && width == 1)
      for (i64 at = first; at < used; ++at) back[walk.edge(at)] = rows[at - first];
    else if (back)
      for_each([this](i64 edge) { prefetch<1>(back + edge * width, width); },
               [this](T* own, i64 edge) { copy_heads(back + edge * width, own, width); });
    first = used = last = 0;
  }

 private:
  [[gnu::noinline]] void bring(i64 at, i64 count) {
    send();
    first = at, used = last = std::min(at + window, std::max(end, at + count));
    // For single numbers the processor prefetches enough by itself.
    if (width == 1)
      for (i64 own = first; own < last; ++own) rows[own - first] = *from[walk.edge(own)];
    else
      for_each([this](i64 edge) { prefetch(from[edge], width); },
               [this](T* own, i64 edge) { copy_heads(own, from[edge], width); });
  }

  // Compute and prefetch the addresses of several edges before the first one is used.
  template <class Ask, class Use> void for_each(const Ask& ask, const Use& use) {
    constexpr i64 most = 128;
    i64 edges[most];
    for (i64 at = first; at < used; at += most) {
      const i64 count = std::min(most, used - at);
      T* own = rows.data() + (at - first) * width;
      for (i64 t = 0; t < count; ++t) edges[t] = walk.edge(at + t);
      for (i64 t = 0; t < count; ++t) ask(edges[t]);
      for (i64 t = 0; t < count; ++t) use(own + t * width, edges[t]);
    }
  }
};

template <class T, class I, class Args> EdgeRows<T, I> edge_rows(const Args& args, const Rows& from,
                                                                 void* back, i64 width,
                                                                 bool by_source = false) {
  return {{Edges<I>(args), by_source}, from, static_cast<T*>(back), width};
}

// Values that the walk by destination passes to the walk by source: for each edge alpha times its
// factors, and the gradient of the score. They are adjacent, because the second walk reads them at
// random positions. [e, 2, h] in CSR order.
template <class A> struct HandedOver {
  A* numbers;
  i64 heads;

  i64 step() const { return 2 * heads; }  // distance between edges
  A* weight(i64 position) const { return numbers + position * step(); }
  A* grad_score(i64 position) const { return weight(position) + heads; }
  void store(i64 position, const A* weight, const A* grad_score) const {
    copy_heads(this->weight(position), weight, heads);
    copy_heads(this->grad_score(position), grad_score, heads);
  }
  void ask(i64 position) const { prefetch(weight(position), step()); }
};

template <class T, class I> struct EdgeTerms {
  using A = acc_t<T>;

  Walk<I> walk;
  EdgeRows<T, I> bias, weight;  // [e, bias_heads] and [e]
  i64 heads, lanes;
  Mask<A> mask;

  Buffer<A> factor, product;
  const A* drawn = nullptr;  // the factors of the current block

  bool has_factors() const { return mask || weight; }
  void prepare() {
    mask.prepare(block), bias.prepare(), weight.prepare();
    if (weight) factor.resize(block * lanes);
    if (weight.back) product.resize(block * lanes);
  }

  // Announce the edges up to `last`, which the walk processes next.
  void follow(i64 last) { bias.end = weight.end = last; }
  // Finish these edges: write their gradients.
  void finish() { bias.send(), weight.send(); }

  // Add the bias of each edge to the scores, [count, lanes].
  [[gnu::noinline]] void add_bias(A* __restrict scores, i64 first, i64 count) {
    const T* rows = bias.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const T* own = rows + t * bias.width;
      A* to = scores + t * lanes;
      if (bias.width == heads) {
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
    const T* each = weight.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const A own = wide(each[t]);
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
    if (weight.back) {
      std::copy_n(products, count * lanes, product.data());
      if (mask) multiply_lanes(product.data(), mask.kept.data(), count * lanes);
    }
    multiply_lanes(products, drawn, count * lanes);
  }

  // alpha of the same block times r w; before that, dw.
  [[gnu::noinline]] void scale_weights(A* alpha, i64 first, i64 count) {
    if (weight.back) {
      T* to = weight.of(first, count);
      for (i64 t = 0; t < count; ++t)
        to[t] = narrow<T>(dot<0>(alpha + t * lanes, product.data() + t * lanes, heads));
    }
    multiply_lanes(alpha, drawn, count * lanes);
  }

  // db from ds, [count, lanes].
  [[gnu::noinline]] void store_bias_gradients(const A* grad_score, i64 first, i64 count) {
    T* rows = bias.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const A* own = grad_score + t * lanes;
      T* to = rows + t * bias.width;
      if (bias.width == heads)
        store(to, own, heads);
      else
        *to = narrow<T>(sum_of<0, A>(heads, [=](i64 x) { return own[x]; }));
    }
  }
};

template <class T, class I, class Args>
EdgeTerms<T, I> terms_of(const Args& args, bool by_source = false) {
  return {
      .walk = {Edges<I>(args), by_source},
      .bias =
          edge_rows<T, I>(args, args.attn_bias, args.grad_attn_bias, args.bias_heads, by_source),
      .weight = edge_rows<T, I>(args, args.edge_weight, args.grad_edge_weight, 1, by_source),
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .mask = mask_of<acc_t<T>>(args.seed, args.dropout, args.heads),
  };
}

}  // namespace gattn::GATTN_ISA
