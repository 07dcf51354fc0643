// This file applies the edge terms of attention: the caller's bias b and weight w, and the dropout
// factor r:
//
//   alpha_ij = softmax_j(s_ij + b_ij)    out_i = sum_j r_ij w_ij alpha_ij v_j
//
// It also computes their gradients, where ds is the gradient of s + b:
//
//   db_ij = ds_ij    dw_ij = sum over heads of alpha_ij r_ij <dO_i, v_j>
//
// The edge terms are processed in blocks of edges, for any number of channels. The bias b (1 or h
// elements per edge) and the weight w (one element per edge) are gathered in the order of the pass,
// one window of edges at a time, and their gradients are scattered in the same way. Separate loops
// gather and scatter them, because random accesses between the gathers of the pass would take more
// time, and a sorted copy of all edges would need memory. A gradient overwrites a value in the
// window that the pass no longer needs.
//
// These classes are compiled in edge_terms.cpp, once for all scores and for both widths of indices.
#pragma once

#include <algorithm>

#include "dispatch.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

constexpr i64 block = 32;  // number of edges in a block

// Multiply each of the `count` numbers in `to` by the number at the same position in `from`.
template <class A>
inline void multiply_lanes(A* __restrict to, const A* __restrict from, i64 count) {
  for_lanes(count, [=](i64 y) { to[y] *= from[y]; });
}

// This type is the order in which a kernel processes the edges: by destination (CSR) or by source
// (CSC).
struct Walk {
  AnyIndices perm, csr2csc;
  bool by_source;

  template <class Args> Walk(const Args& args, bool by_source)
      : perm(indices_of<AnyIndex>(args.perm, args.is_int64)),
        csr2csc(indices_of<AnyIndex>(args.csr2csc, args.is_int64)),
        by_source(by_source) {}
  // Return the CSR position of the edge at step `at` of the pass.
  i64 position(i64 at) const { return by_source ? csr2csc[at] : at; }
  i64 edge(i64 at) const { return perm[position(at)]; }
};

// This class is a window on tensors [e, width] that have a row for each edge. It copies the rows of
// consecutive edges of a pass to contiguous memory. The pass may replace a row by its gradient.
// When the window moves, the gradients are scattered to `gradient`.
template <class T> struct EdgeRows {
  static constexpr i64 window = split_edges;  // maximum number of edges in a row or split

  Walk walk;
  Table<const T> from;
  // The pointer is null if no gradient is written.
  T* gradient;
  i64 width;

  Buffer<T> rows;
  // First edge of the window, end of the processed edges, and end of the window.
  i64 first = 0, used = 0, last = 0;
  i64 end = 0;  // end of the range of edges that the kernel processes next

  explicit operator bool() const { return bool(from); }
  void prepare() {
    if (from) rows.resize(window * width);
  }

  // Return the values of the edges at the positions at to at + count - 1, in the order in which the
  // pass visits the edges. The pointer is valid until the next call.
  T* of(i64 at, i64 count) {
    if (at < first || at + count > last) load_window(at, count);
    used = at + count;
    return rows.data() + (at - first) * width;
  }

  // Scatter the gradients of the processed edges, and empty the window.
  [[gnu::noinline]] void flush() {
    if (gradient && width == 1)
      for (i64 at = first; at < used; ++at) gradient[walk.edge(at)] = rows[at - first];
    else if (gradient)
      for_each([this](i64 edge) { prefetch<1>(gradient + edge * width, width); },
               [this](T* row, i64 edge) { copy_heads(gradient + edge * width, row, width); });
    first = used = last = 0;
  }

 private:
  [[gnu::noinline]] void load_window(i64 at, i64 count) {
    flush();
    first = at, used = last = std::min(at + window, std::max(end, at + count));
    // A single number per edge needs no prefetch, because out-of-order execution hides the latency.
    if (width == 1)
      for (i64 edge = first; edge < last; ++edge) rows[edge - first] = *from[walk.edge(edge)];
    else
      for_each([this](i64 edge) { prefetch(from[edge], width); },
               [this](T* row, i64 edge) { copy_heads(row, from[edge], width); });
  }

  // Call use(row, edge) for all edges of the window. Their addresses are prefetched in batches.
  template <class Prefetch, class Use>
  void for_each(const Prefetch& prefetch_edge, const Use& use) {
    constexpr i64 batch = 128;
    i64 edges[batch];
    for (i64 at = first; at < used; at += batch) {
      const i64 count = std::min(batch, used - at);
      T* row = rows.data() + (at - first) * width;
      for (i64 t = 0; t < count; ++t) edges[t] = walk.edge(at + t);
      for (i64 t = 0; t < count; ++t) prefetch_edge(edges[t]);
      for (i64 t = 0; t < count; ++t) use(row + t * width, edges[t]);
    }
  }
};

template <class T, class Args> EdgeRows<T> edge_rows(const Args& args, const Rows& from, void* back,
                                                     i64 width, bool by_source = false) {
  return {Walk(args, by_source), from, static_cast<T*>(back), width};
}

// This struct contains values [e, 2, h] in CSR order that the pass by destination writes for the
// pass by source. An edge has two values for each head: the product of alpha, dropout factor and
// edge weight, and the gradient of the score. The two values are adjacent in memory, because the
// pass by source reads edges at random positions.
template <class A> struct EdgeValues {
  A* numbers;
  i64 heads;

  i64 step() const { return 2 * heads; }  // number of elements per edge
  A* weight(i64 position) const { return numbers + position * step(); }
  A* grad_score(i64 position) const { return weight(position) + heads; }
  void store(i64 position, const A* weight, const A* grad_score) const {
    copy_heads(this->weight(position), weight, heads);
    copy_heads(this->grad_score(position), grad_score, heads);
  }
};

// This class applies the biases, weights and dropout of the edges in one pass.
template <class T> struct EdgeTerms {
  using A = acc_t<T>;

  Walk walk;
  // Shapes: [e, bias_heads] for the bias, and [e] for the weight.
  EdgeRows<T> bias, weight;
  i64 heads, lanes;
  Mask<A> mask;

  Buffer<A> factor, product;
  // Products of dropout factor and edge weight for the edges of the current block.
  const A* block_factors = nullptr;

  bool has_factors() const { return mask || weight; }
  void prepare() {
    mask.prepare(block), bias.prepare(), weight.prepare();
    if (weight) factor.resize(block * lanes);
    if (weight.gradient) product.resize(block * lanes);
  }

  // Set the end of the range of edges that the kernel processes next.
  void set_end(i64 last) { bias.end = weight.end = last; }
  // Write the gradients of the biases and weights of the processed edges.
  void finish() { bias.flush(), weight.flush(); }

  // Add the bias of each edge to the scores, [count, lanes].
  [[gnu::noinline]] void add_bias(A* __restrict scores, i64 first, i64 count) {
    const T* rows = bias.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const T* row = rows + t * bias.width;
      A* to = scores + t * lanes;
      if (bias.width == heads) {
        axpy<0>(to, A(1), row, heads);
      } else {
        const A common = wide(*row);
        for_lanes(lanes, [=](i64 x) { to[x] += common; });
      }
    }
  }

  // Return the dropout factor times the edge weight, r w, for the edges of a block: [count, lanes].
  [[gnu::noinline]] const A* factors(i64 first, i64 count) {
    const A* dropout = nullptr;
    if (mask) dropout = mask.draw(count, [=, this](i64 t) { return walk.position(first + t); });
    if (!weight) return dropout;
    const T* weights = weight.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const A w = wide(weights[t]);
      const A* r = dropout + t * lanes;
      A* to = factor.data() + t * lanes;
      if (dropout)
        for_lanes(lanes, [=](i64 x) { to[x] = w * r[x]; });
      else
        for_lanes(lanes, [=](i64 x) { to[x] = w; });
    }
    return factor.data();
  }

  // Multiply the products <dO_i, v_j> of a block, [count, lanes], by the factors r w.
  [[gnu::noinline]] void scale_products(A* products, i64 first, i64 count) {
    block_factors = factors(first, count);
    if (weight.gradient) {
      std::copy_n(products, count * lanes, product.data());
      if (mask) multiply_lanes(product.data(), mask.factors.data(), count * lanes);
    }
    multiply_lanes(products, block_factors, count * lanes);
  }

  // Compute the gradient dw of the edge weights of a block from alpha, [count, lanes]. Then
  // multiply alpha by the factors r w.
  [[gnu::noinline]] void scale_weights(A* alpha, i64 first, i64 count) {
    if (weight.gradient) {
      T* to = weight.of(first, count);
      for (i64 t = 0; t < count; ++t)
        to[t] = narrow<T>(dot<0>(alpha + t * lanes, product.data() + t * lanes, heads));
    }
    multiply_lanes(alpha, block_factors, count * lanes);
  }

  // Compute the gradient db of the bias from the gradient ds of the scores, [count, lanes].
  [[gnu::noinline]] void store_bias_gradients(const A* grad_score, i64 first, i64 count) {
    T* rows = bias.of(first, count);
    for (i64 t = 0; t < count; ++t) {
      const A* ds = grad_score + t * lanes;
      T* to = rows + t * bias.width;
      if (bias.width == heads)
        store(to, ds, heads);
      else
        *to = narrow<T>(sum_of<0, A>(heads, [=](i64 x) { return ds[x]; }));
    }
  }
};

extern template struct EdgeTerms<float>;
extern template struct EdgeTerms<double>;
extern template struct EdgeTerms<bf16>;
extern template struct EdgeTerms<f16>;
extern template struct EdgeRows<float>;
extern template struct EdgeRows<double>;
extern template struct EdgeRows<bf16>;
extern template struct EdgeRows<f16>;

template <class T, class Args> EdgeTerms<T> terms_of(const Args& args, bool by_source = false) {
  return {
      .walk = Walk(args, by_source),
      .bias = edge_rows<T>(args, args.attn_bias, args.grad_attn_bias, args.bias_heads, by_source),
      .weight = edge_rows<T>(args, args.edge_weight, args.grad_edge_weight, 1, by_source),
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .mask = mask_of<acc_t<T>>(args.seed, args.dropout, args.heads),
  };
}

}  // namespace gattn::GATTN_ISA
