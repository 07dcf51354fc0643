// These kernels compute dot-product attention with factored edge features, for TransformerConv,
// AGNNConv, the learned-query readout and self-attention:
//
//   s_ij = scale (q_i . k_j + u_i . a_ij)     u_i = W^T q_i, [h, d]
//   out_i = O_i + W E_i     O_i = sum_j alpha_ij v_j    E_i = sum_j alpha_ij a_ij, [h, d]
//
// The file edge_terms.h applies the bias, weight and dropout of the edges. Below, r_ij is the
// product of dropout factor and edge weight, by which alpha_ij is multiplied. For each edge,
// forward reads a row of k, a row of v (together 2 h c elements) and d edge features. For each row
// of the output, it multiplies twice by W, which stays in the cache. If there are edge features and
// a backward pass follows, forward also writes O and E.
//
// Backward consists of two passes over the edges. The pass by destination gathers k and v, and
// computes alpha, the gradients of the edge terms, and
//   ds_ij = alpha_ij (r_ij (<dO_i, v_j> + (W^T dO_i) . a_ij) - D_i), D_i = <dO_i, O_i + W E_i>
//   dq_i = sum_j ds_ij k_j + W du_i with du_i = sum_j ds_ij a_ij
//   dW = sum_i q_i du_i^T + dO_i E_i^T
// It writes r alpha and scale ds for the second pass, with shape [e, h] in CSR order. The pass by
// source gathers q and dO, and computes dk_j = sum_i ds_ij q_i and dv_j = sum_i r_ij alpha_ij dO_i.
// The derivation is in docs/kernels.md.
#include "attention.h"
#include "head_sums.h"
#include "multiply_add.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define DOT_PRODUCT_FIELDS(FIELD)                                                                  \
  FIELD(Dtype, dtype)                                                                              \
  GATTN_LAYOUT_FIELDS(FIELD)                                                                       \
  GATTN_TERMS_FIELDS(FIELD)                                                                        \
  FIELD(i64, heads) FIELD(i64, channels) FIELD(i64, value_channels) FIELD(i64, features)           \
  FIELD(double, scale)                                                                             \
  FIELD(Rows, query) FIELD(Rows, key) FIELD(Rows, value)                                           \
  FIELD(Rows, edge_attr) FIELD(Rows, edge_proj)                                                    \
  FIELD(void*, out) FIELD(void*, out_acc) FIELD(void*, row_max) FIELD(void*, row_sum)              \
  FIELD(void*, edge_out)                                                                           \
  FIELD(Rows, grad_out)                                                                            \
  FIELD(void*, grad_query) FIELD(void*, grad_key) FIELD(void*, grad_value)                         \
  FIELD(void*, grad_edge_attr) FIELD(void*, grad_edge_proj)
// clang-format on
GATTN_ARGS(DotProductArgs, DOT_PRODUCT_FIELDS);

// The following functions process edge features.

// Compute the product W^T x for each head: [h, d], from W [h, c, d] and x [h, c].
template <class A>
[[gnu::noinline]] void to_features(A* to, const A* matrix, const A* x, i64 heads, i64 c, i64 d) {
  fill(to, A(0), heads * d);
  with_features(d, [=]<int D>() { axpy_matrices<D>(to, x, matrix, heads, c, d); });
}

// For each edge t and head x, add the dot product of from_x and the features rows[t] to to[t][x].
// Shapes: from [h, d], to [count, lanes].
template <class T, class A> [[gnu::noinline]] void add_feature_dots(A* to, const A* from,
                                                                    const T* const* rows, i64 count,
                                                                    i64 heads, i64 lanes, i64 d) {
  with_features(d, [=]<int D>() {
    for (i64 t = 0; t < count; ++t)
      sums_of_heads<D, T, accumulate>(to + t * lanes, heads, d, [=, row = rows[t]](auto at) {
        return at.of(from, at.head * d) * at.of(row, 0);
      });
  });
}

// For each head x, add the weighted sum of the features rows[t] to to_x. Shapes: weight [count,
// lanes], to [h, d].
template <class T, class A> [[gnu::noinline]] void add_feature_rows(A* to, const A* weight,
                                                                    const T* const* rows, i64 count,
                                                                    i64 heads, i64 lanes, i64 d) {
  with_features(d, [=]<int D>() {
    add_rows<D, T>(
        to, false, count, heads, d, [=](i64 t) { return weight + t * lanes; },
        [=](i64 t) { return rows[t]; }, [](i64) { return 0; });
  });
}

// For each head, add the dot product of its rows in `from` and `mean`, [h, d], to `to`, [h].
template <class A>
[[gnu::noinline]] void add_head_dots(A* to, const A* from, const A* mean, i64 heads, i64 d) {
  with_features(d, [=]<int D>() { head_dots<D, accumulate>(to, from, mean, heads, d); });
}

// Compute the gradient of an edge's features, [d]: the sum over the heads x of a_x u_x + b_x w_x.
// Shapes: a and b [h], u and w [h, d].
template <class A> [[gnu::noinline]] void feature_gradient(A* to, const A* a, const A* u,
                                                           const A* b, const A* w, i64 heads,
                                                           i64 d) {
  fill(to, A(0), d);
  with_features(d, [=]<int D>() {
    axpy_matrices<D>(to, a, u, 1, heads, d);
    axpy_matrices<D>(to, b, w, 1, heads, d);
  });
}

// Add the product W x, [h, c], to `to`, from the transpose of W, [h, d, c], and x [h, d].
template <class A> [[gnu::noinline]] void from_features(A* to, const A* x, const A* transposed,
                                                        i64 heads, i64 d, i64 channels) {
  with_channels<A>(channels,
                   [=]<int C>() { axpy_matrices<C>(to, x, transposed, heads, d, channels); });
}

// This class computes the score of dot-product attention, in forward and in backward.
template <class T, class I> struct DotProductScore {
  using A = acc_t<T>;
  static constexpr i64 value_prefetch_distance = prefetch_distance;

  Edges<I> graph;
  Table<const T> query, key, edge_attr, edge_proj;
  i64 heads, lanes, channels, value_channels, features;
  A scale;
  A* edge_out;

  Buffer<A> q, u;
  // W with shape [h, c, d], and its transpose with shape [h, d, c].
  Buffer<A> projection, transposed;
  // Rows of edge features and of keys of the current block of edges, and keys of later edges.
  Buffer<const T*> attr_rows, key_rows, ahead;
  const A* query_row = nullptr;

  i64 extra_size() const { return features; }
  bool has_extra(i64) const { return features; }
  void prefetch_row(i64 row) const {
    prefetch(query[row], heads * channels);
    if (edge_out) prefetch<1>(edge_out + row * heads * features, heads * features);
  }
  void prepare() {
    q.resize(heads * channels), u.resize(heads * features);
    attr_rows.resize(block), key_rows.resize(block), ahead.resize(block);
    if (!features) return;
    projection.resize(heads * channels * features);
    transposed.resize(heads * channels * features);
    for (i64 x = 0; x < heads; ++x) {
      load(projection.data() + x * channels * features, edge_proj[x], channels * features);
      for (i64 k = 0; k < channels; ++k)
        for (i64 f = 0; f < features; ++f)
          transposed[(x * features + f) * channels + k] =
              projection[(x * channels + k) * features + f];
    }
  }
  void begin(i64 row) {
    query_row = widened(q.data(), query[row], heads * channels);
    if (features) project(u.data(), query_row);
  }

  void project(A* to, const A* x) const {
    to_features(to, projection.data(), x, heads, channels, features);
  }

  // Add the product W x, [h, c], to `to`.
  void add_from_features(A* to, const A* x) const {
    from_features(to, x, transposed.data(), heads, features, channels);
  }

  // Compute the scores of a block of edges. The backward pass computes them again.
  [[gnu::noinline]] void scores(i64 first, i64 count, A* __restrict s) {
    for (i64 t = 0; t < count; ++t) {
      const i64 next = std::min(first + t + prefetch_distance, graph.e - 1);
      key_rows[t] = key[graph.col[first + t]], ahead[t] = key[graph.col[next]];
      if (features) prefetch(edge_attr[graph.perm[next]], features);
    }
    dot_rows(s, lanes, query_row, key_rows.data(), ahead.data(), count, heads, channels,
             graph.is_large);
    if (features) {
      for (i64 t = 0; t < count; ++t) attr_rows[t] = edge_attr[graph.perm[first + t]];
      add_feature_dots(s, u.data(), attr_rows.data(), count, heads, lanes, features);
    }
    const A factor = scale;
    for_lanes(count * lanes, [=](i64 y) { s[y] *= factor; });
  }

  void accumulate_extra(A* sum, A*, i64, i64 count, const A*, const A* after, const T* const*) {
    add_feature_rows(sum, after, attr_rows.data(), count, heads, lanes, features);
  }

  void end(A* acc, const A* sum, const A*, const A* inverse, i64 row) {
    if (!features) return;
    // u is not needed any more, so the mean is stored in its memory.
    A* mean = u.data();
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < features; ++k)
        mean[x * features + k] = sum[x * features + k] * inverse[x];
    add_from_features(acc, mean);
    if (edge_out) load(edge_out + row * heads * features, mean, heads * features);
  }
};

template <class T, class I> DotProductScore<T, I> score_of(const DotProductArgs& args) {
  return {
      .graph = Edges<I>(args),
      .query = args.query,
      .key = args.key,
      .edge_attr = args.edge_attr,
      .edge_proj = args.edge_proj,
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .channels = args.channels,
      .value_channels = args.value_channels,
      .features = args.features,
      .scale = acc_t<T>(args.scale),
      .edge_out = static_cast<acc_t<T>*>(args.edge_out),
  };
}

// This class is the first of the two passes of the backward kernel. For each destination, it
// processes the edges into the destination.
template <class T, class I> struct DotProductBackwardByDestination {
  using A = acc_t<T>;

  DotProductScore<T, I> score;
  ScoreGradients<T> gradients;
  const A* edge_out;
  T* grad_query;

  Buffer<A> grad_edge_out, grad_attr, total;
  // Pointers to the gradients of the scores of a block of edges.
  Buffer<const A*> grads;
  // Pairs of rows whose outer products have not been added to dW yet.
  Buffer<A> left, right;
  i64 pending = 0;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.channels; }
  i64 features() const { return score.features; }
  i64 state_size() const { return heads() * (c() + features()); }
  i64 shared_size() const { return heads() * c() * features(); }  // size of dW, a sum over all rows
  void prepare() {
    score.prepare(), gradients.prepare(), grads.resize(block);
    point_to_rows<A>(grads.data(), gradients.grads.data(), block, lanes());
    grad_edge_out.resize(heads() * features()), grad_attr.resize(features());
    total.resize(heads() * c());
    if (features())
      left.resize(max_pending * heads() * c()), right.resize(max_pending * heads() * features());
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 row) const {
    prefetch(score.query[row], heads() * c());
    gradients.prefetch_row(row);
    if (features()) prefetch(edge_out + row * heads() * features(), heads() * features());
    prefetch<1>(grad_query + row * heads() * c(), heads() * c());
  }
  void set_end(i64 last) { gradients.terms.set_end(last); }
  void finish(A* shared) {
    if (features()) flush_products(shared);
    gradients.terms.finish();
  }

  void begin_row(i64 row) {
    score.begin(row), gradients.begin(row);
    if (!features()) return;
    score.project(grad_edge_out.data(), gradients.grad_row);
    // Add the part of D_i that comes from edge features: (W^T dO_i) . E_i.
    add_head_dots(gradients.delta.data(), grad_edge_out.data(),
                  edge_out + row * heads() * features(), heads(), features());
  }

  void add_edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    A *grad_q = state, *grad_u = state + heads() * c();
    A *weights = gradients.weights.data(), *grad_scores = gradients.grads.data();
    begin_row(row);
    fill(grad_u, A(0), heads() * features());
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, weights);
      gradients.inner_products(score.graph, at, count);
      if (features())
        add_feature_dots(grad_scores, grad_edge_out.data(), score.attr_rows.data(), count, heads(),
                         lanes(), features());
      gradients.compute(at, count);
      add_weighted_rows(grad_q, at == first, count, heads(), heads(), c(), grads.data(),
                        score.key_rows.data());
      for (i64 t = 0; gradients.grad_edge_attr && t < count; ++t)
        edge_gradient(grads[t], weights + t * lanes(), score.graph.perm[at + t]);
      if (features())
        add_feature_rows(grad_u, grad_scores, score.attr_rows.data(), count, heads(), lanes(),
                         features());
    }
    if (features()) weight_gradient(shared, grad_u, row, first == score.graph.rowptr[row]);
  }

  void edge_gradient(const A* grad_score, const A* weight, i64 edge) {
    feature_gradient(grad_attr.data(), grad_score, score.u.data(), weight, grad_edge_out.data(),
                     heads(), features());
    store(gradients.grad_edge_attr + edge * features(), grad_attr.data(), features());
  }

  // Add the terms of dW for some edges of a row. The term of E is computed once per row, together
  // with the first edges.
  void weight_gradient(A* to, const A* grad_u, i64 row, bool is_first) {
    add_product(to, score.query_row, grad_u);
    if (is_first) add_product(to, gradients.grad_row, edge_out + row * heads() * features());
  }

  // Add the outer product of a_x and b_x to the matrix to_x for each head x. Shapes: a [h, c], b
  // [h, d], to [h, c, d]. Several products are collected and added together, because `to` is much
  // larger than a row.
  void add_product(A* to, const A* a, const A* b) {
    std::copy_n(a, heads() * c(), left.data() + pending * heads() * c());
    std::copy_n(b, heads() * features(), right.data() + pending * heads() * features());
    if (++pending == max_pending) flush_products(to);
  }

  void flush_products(A* to) {
    const i64 n = c(), d = features();
    for (i64 x = 0; x < heads(); ++x)
      multiply_add(to + x * n * d, left.data() + x * n, 1, heads() * n, right.data() + x * d, n,
                   pending, d, heads() * d);
    pending = 0;
  }

  void end(const A* state, i64 row) {
    const A* sum = state;
    if (features()) {
      load(total.data(), state, heads() * c());
      score.add_from_features(total.data(), state + heads() * c());
      sum = total.data();
    }
    store(grad_query + row * heads() * c(), sum, heads() * c());
  }
};

// This class is the second of the two passes of the backward kernel. For each source, it processes
// the edges out of the source.
template <class T, class I> struct DotProductBackwardBySource {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> query, grad_out;
  EdgeValues<A> edge_values;
  T *grad_key, *grad_value;
  i64 heads, channels, value_channels;

  // Pointers to the rows of queries and of grad_out, to the gradients of the scores and to the
  // weights of each edge of a block.
  Buffer<const T*> queries, grads;
  Buffer<const A*> grad_scores, weights;

  i64 state_size() const { return heads * (channels + value_channels); }
  i64 shared_size() const { return 0; }
  void prepare() {
    queries.resize(block), grads.resize(block), grad_scores.resize(block), weights.resize(block);
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 source) const {
    prefetch<1>(grad_key + source * heads * channels, heads * channels);
    prefetch<1>(grad_value + source * heads * value_channels, heads * value_channels);
  }
  void add_edges(A* state, A*, i64, i64 first, i64 last) const {
    A *grad_k = state, *grad_v = state + heads * channels;
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) prefetch_edge(at + t + prefetch_distance);
      for (i64 t = 0; t < count; ++t) {
        const i64 row = graph.row[at + t], position = graph.csr2csc[at + t];
        queries[t] = query[row], grads[t] = grad_out[row];
        grad_scores[t] = edge_values.grad_score(position);
        weights[t] = edge_values.weight(position);
      }
      add_weighted_rows(grad_k, at == first, count, heads, heads, channels, grad_scores.data(),
                        queries.data());
      add_weighted_rows(grad_v, at == first, count, heads, heads, value_channels, weights.data(),
                        grads.data());
    }
  }
  void prefetch_edge(i64 at) const {
    if (at >= graph.e) return;
    prefetch_from(graph.is_large, query[graph.row[at]], heads * channels);
    prefetch_from(graph.is_large, grad_out[graph.row[at]], heads * value_channels);
    prefetch_from(graph.is_large, edge_values.weight(graph.csr2csc[at]), edge_values.step());
  }
  void end(const A* state, i64 source) const {
    store(grad_key + source * heads * channels, state, heads * channels);
    store(grad_value + source * heads * value_channels, state + heads * channels,
          heads * value_channels);
  }
};

void dot_product_forward(const DotProductArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    attend<T, I>(score_of<T, I>(args), args, args.value, args.heads, args.value_channels);
  });
}

void dot_product_backward(const DotProductArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const i64 heads = args.heads, work = heads * (args.channels + args.value_channels + 8);
    const auto numbers = scratch<A>(edges.e * 2 * heads);
    const i64 size = heads * args.channels * args.features;
    const Buffer<A> total(size);
    const DotProductBackwardByDestination<T, I> by_destination{
        .score = score_of<T, I>(args),
        .gradients = score_gradients<T>(args, args.value, args.scale, numbers.get()),
        .edge_out = static_cast<const A*>(args.edge_out),
        .grad_query = static_cast<T*>(args.grad_query),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work, by_destination, total.data());
    store(static_cast<T*>(args.grad_edge_proj), total.data(), size);
    const DotProductBackwardBySource<T, I> by_source{
        .graph = edges,
        .query = args.query,
        .grad_out = args.grad_out,
        .edge_values = by_destination.gradients.edge_values,
        .grad_key = static_cast<T*>(args.grad_key),
        .grad_value = static_cast<T*>(args.grad_value),
        .heads = heads,
        .channels = args.channels,
        .value_channels = args.value_channels,
    };
    walk_rows(edges.colptr, edges.m, work, by_source);
  });
}

}  // namespace

std::span<const Kernel> dot_product_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(dot_product_forward, DotProductArgs),
      GATTN_KERNEL(dot_product_backward, DotProductArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
