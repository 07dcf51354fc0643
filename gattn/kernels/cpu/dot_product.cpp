// Dot-product attention with factored edge features.
//
//   s_ij = scale (q_i . k_j + u_i . a_ij) + bias_ij     u_i = W^T q_i, [h, d]
//   out_i = O_i + W E_i     O_i = sum_j alpha_ij v_j    E_i = sum_j alpha_ij a_ij, [h, d]
//
// Forward reads, per edge, a row of k and one of v (2 h c elements), d features and h biases; per
// row of the output it multiplies twice with W, which stays in cache. Where there are features and
// backward may follow, it writes O and E beside out.
//
// Backward is two walks. Over the edges into each destination, k and v are gathered again, alpha
// and the score's gradient are formed,
//   ds_ij = alpha_ij (<dO_i, v_j> + (W^T dO_i) . a_ij - D_i),   
//   D_i = <dO_i, O_i> + (W^T dO_i) . E_i
// dq_i = sum_j ds_ij k_j + W du_i with du_i = sum_j ds_ij a_ij, dW = sum_i q_i du_i^T + dO_i E_i^T,
// da and dbias are finished, and alpha (after dropout) and scale ds are handed over, [e, h] in CSR
// order. Over the edges out of each source, dk_j = sum_i ds_ij q_i and dv_j = sum_i alpha_ij dO_i
// then gather q and dO and compute nothing else.
#include "attention.h"

namespace gattn::GATTN_ISA {

namespace {

#define DOT_PRODUCT_FIELDS(FIELD)                                                              \
  FIELD(Dtype, dtype)                                                                          \
  GATTN_LAYOUT_FIELDS(FIELD)                                                                   \
  GATTN_DROPOUT_FIELDS(FIELD)                                                                  \
  FIELD(i64, heads) FIELD(i64, channels) FIELD(i64, value_channels) FIELD(i64, features)       \
  FIELD(double, scale)                                                                         \
  FIELD(Rows, query) FIELD(Rows, key) FIELD(Rows, value) FIELD(Rows, bias)                     \
  FIELD(Rows, edge_attr) FIELD(Rows, edge_proj)                                                \
  FIELD(void*, out) FIELD(void*, out_acc) FIELD(void*, row_max) FIELD(void*, row_sum)          \
  FIELD(void*, edge_out)                                                                       \
  FIELD(Rows, grad_out)                                                                        \
  FIELD(void*, grad_query) FIELD(void*, grad_key) FIELD(void*, grad_value)                     \
  FIELD(void*, grad_bias) FIELD(void*, grad_edge_attr) FIELD(void*, grad_edge_proj)
GATTN_ARGS(DotProductArgs, DOT_PRODUCT_FIELDS);

template <class T, class I, int C> struct Score {
  using A = acc_t<T>;
  static constexpr i64 values_ahead = ahead;

  Edges<I> graph;
  Table<const T> query, key, value, bias, edge_attr, edge_proj;
  i64 heads, lanes, channels, value_channels, features;
  A scale;
  A* edge_out;

  std::vector<A> q, u, projection, transposed;  // W as [h, c, d] and as [h, d, c]

  i64 extra_size() const { return features; }
  void prepare() {
    q.resize(heads * channels), u.resize(heads * features);
    if (!features) return;
    projection.resize(heads * channels * features), transposed.resize(projection.size());
    for (i64 x = 0; x < heads; ++x) {
      load(projection.data() + x * channels * features, edge_proj[x], channels * features);
      for (i64 k = 0; k < channels; ++k)
        for (i64 f = 0; f < features; ++f)
          transposed[(x * features + f) * channels + k] = projection[(x * channels + k) * features + f];
    }
  }
  void begin(i64 row) {
    load(q.data(), query[row], heads * width<C>(channels));
    if (features) to_features(u.data(), q.data());
  }

  // to_x += <from_x, a> for every head x.
  void add_dots(A* __restrict to, const A* from, const T* a) const {
    const i64 n = features, h = heads;
    with_features(n, [=]<int D>() {
      for (i64 x = 0; x < h; ++x) to[x] += dot<D>(from + x * n, a, n);
    });
  }

  // to_x += weight_x a for every head x.
  void add_outer(A* __restrict to, const A* weight, const T* a) const {
    const i64 n = features, h = heads;
    with_features(n, [=]<int D>() {
      for (i64 x = 0; x < h; ++x) axpy<D>(to + x * n, weight[x], a, n);
    });
  }

  // W^T x, [h, d].
  void to_features(A* to, const A* x) const {
    const i64 c = width<C>(channels), d = features, h = heads;
    const A* matrix = projection.data();
    fill(to, A(0), h * d);
    with_features(d, [=]<int D>() {
      for (i64 y = 0; y < h; ++y) axpy_matrix<D>(to + y * d, x + y * c, matrix + y * c * d, c, d);
    });
  }

  // to += W x, [h, c].
  void add_from_features(A* to, const A* x) const {
    const i64 c = width<C>(channels), d = features;
    for (i64 y = 0; y < heads; ++y)
      axpy_matrix<C>(to + y * c, x + y * d, transposed.data() + y * c * d, d, c);
  }

  void scores(i64 first, i64 count, A* __restrict s) {
    const i64 c = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t, j = graph.col[at];
      if (at + ahead < graph.e) {
        prefetch(key[graph.col[at + ahead]], heads * c);
        if (features) prefetch(edge_attr[graph.perm[at + ahead]], features);
        if (bias) prefetch(bias[graph.perm[at + ahead]], heads);
      }
      const T* k = key[j];
      A* own = s + t * lanes;
      for (i64 x = 0; x < heads; ++x) own[x] = dot<C>(q.data() + x * c, k + x * c, c);
      if (features) add_dots(own, u.data(), edge_attr[graph.perm[at]]);
    }
    const A factor = scale;
    for_lanes(count * lanes, [=](i64 y) { s[y] *= factor; });
    if (bias)
      for (i64 t = 0; t < count; ++t)
        axpy<0>(s + t * lanes, A(1), bias[graph.perm[first + t]], heads);
  }

  void take(A* sum, A*, i64 first, i64 count, const A*, const A* after,
            const T* const*, const i64*) {
    if (!features) return;
    for (i64 t = 0; t < count; ++t) add_outer(sum, after + t * lanes, edge_attr[graph.perm[first + t]]);
  }

  void end(A* acc, const A* sum, const A*, const A* inverse, i64 row) {
    if (!features) return;
    A* mean = u.data();  // the next row begins with its own
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < features; ++k) mean[x * features + k] = sum[x * features + k] * inverse[x];
    add_from_features(acc, mean);
    if (edge_out) load(edge_out + row * heads * features, mean, heads * features);
  }
};

template <class T, class I, int C> Score<T, I, C> score_of(const DotProductArgs& args) {
  return {
      .graph = Edges<I>(args),
      .query = args.query,
      .key = args.key,
      .value = args.value,
      .bias = args.bias,
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

template <class T, class I, int C> struct Destination {
  using A = acc_t<T>;

  Score<T, I, C> score;
  Table<const T> grad_out;
  const A *out, *edge_out, *row_max, *row_sum;
  T *grad_query, *grad_bias, *grad_edge_attr;
  A *alpha, *grad_score;
  Mask<A> mask;

  std::vector<A> s, ds, g, ge, ga, d, largest, inverse, total;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return width<C>(score.channels); }
  i64 cv() const { return C ? C : score.value_channels; }
  i64 features() const { return score.features; }
  i64 state_size() const { return heads() * (c() + features()); }
  i64 shared_size() const { return heads() * c() * features(); }  // dW, a sum over all rows
  void prepare() {
    score.prepare(), mask.prepare(block);
    s.resize(block * lanes()), ds.resize(block * lanes());
    g.resize(heads() * cv()), ge.resize(heads() * features()), ga.resize(features());
    d.resize(lanes()), largest.resize(lanes()), inverse.resize(lanes());
    total.resize(heads() * c());
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }

  void begin_row(i64 row) {
    score.begin(row);
    load(g.data(), grad_out[row], heads() * cv());
    if (features()) score.to_features(ge.data(), g.data());
    for (i64 x = 0; x < heads(); ++x) {
      // The same sum as for an edge: without dropout the two cancel to the last bit in a row of one.
      d[x] = dot<C>(g.data() + x * cv(), out + (row * heads() + x) * cv(), cv());
      largest[x] = row_max[row * heads() + x];
      inverse[x] = Softmax::inverse(row_sum[row * heads() + x]);
    }
    if (features()) add_means(row);
  }

  // (W^T dO_i) . E_i joins D_i.
  void add_means(i64 row) {
    const i64 n = features(), h = heads();
    const A *from = ge.data(), *mean = edge_out + row * h * n;
    A* to = d.data();
    with_features(n, [=]<int D>() {
      for (i64 x = 0; x < h; ++x) to[x] += dot<D>(from + x * n, mean + x * n, n);
    });
  }

  void edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    A *grad_q = state, *grad_u = state + heads() * c();
    begin_row(row);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      inner_products(at, count);
      gradients(row, at, count);
      for (i64 t = 0; t < count; ++t) {
        const i64 position = at + t, edge = score.graph.perm[position];
        const A* change = ds.data() + t * lanes();
        std::copy_n(s.data() + t * lanes(), heads(), alpha + position * heads());
        std::copy_n(change, heads(), grad_score + position * heads());
        const T* k = score.key[score.graph.col[position]];
        for (i64 x = 0; x < heads(); ++x) axpy<C>(grad_q + x * c(), change[x], k + x * c(), c());
        if (features()) edge_features(grad_u, change, s.data() + t * lanes(), edge);
      }
    }
    if (features()) weight_gradient(shared, grad_u, row, first == score.graph.rowptr[row]);
  }

  // <dO_i, v_j> + <dE_i, a_ij> into ds.
  void inner_products(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      if (at + ahead < graph.e) {
        prefetch(score.value[graph.col[at + ahead]], heads() * cv());
        const i64 edge = graph.perm[at + ahead];
        if (grad_edge_attr) prefetch<1>(grad_edge_attr + edge * features(), features());
        if (grad_bias) prefetch<1>(grad_bias + edge * heads(), heads());
      }
      const T* v = score.value[graph.col[at]];
      A* inner = ds.data() + t * lanes();
      for (i64 x = 0; x < heads(); ++x) inner[x] = dot<C>(g.data() + x * cv(), v + x * cv(), cv());
      if (features()) score.add_dots(inner, ge.data(), score.edge_attr[graph.perm[at]]);
    }
  }

  // alpha after dropout into s, scale times the score's gradient into ds.
  void gradients(i64 row, i64 first, i64 count) {
    A *flat = s.data(), *inner = ds.data();
    const A *shift = largest.data(), *inv = inverse.data(), *own = d.data();
    const A factor = score.scale;
    for (i64 t = 0; t < count; ++t) {
      A* exponent = flat + t * lanes();
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= shift[x]; });
    }
    for_lanes(count * lanes(), [=](i64 y) { flat[y] = exp_below(flat[y]); });
    const A* kept = mask ? mask.draw(count, [=](i64 t) { return first + t; }) : nullptr;
    if (kept) for_lanes(count * lanes(), [=](i64 y) { inner[y] *= kept[y]; });
    for (i64 t = 0; t < count; ++t) {
      A *p = flat + t * lanes(), *change = ds.data() + t * lanes();
      for_lanes(lanes(), [=](i64 x) {
        p[x] *= inv[x];
        change[x] = p[x] * (change[x] - own[x]);
      });
      if (grad_bias) store(grad_bias + score.graph.perm[first + t] * heads(), change, heads());
      for_lanes(lanes(), [=](i64 x) { change[x] *= factor; });
    }
    if (kept) for_lanes(count * lanes(), [=](i64 y) { flat[y] *= kept[y]; });
  }

  void edge_features(A* grad_u, const A* r, const A* kept, i64 edge) {
    score.add_outer(grad_u, r, score.edge_attr[edge]);
    if (!grad_edge_attr) return;
    const i64 n = features(), h = heads();
    A* sum = ga.data();
    const A *u = score.u.data(), *w = ge.data();
    fill(sum, A(0), n);
    with_features(n, [=]<int D>() {
      axpy_matrix<D>(sum, r, u, h, n);
      axpy_matrix<D>(sum, kept, w, h, n);
    });
    store(grad_edge_attr + edge * n, sum, n);
  }

  // dW of these edges; that of E, which is of the whole row, goes with the first ones.
  void weight_gradient(A* to, const A* grad_u, i64 row, bool leads) const {
    const i64 n = features(), h = heads(), channels = c();
    const A *mean = edge_out + row * h * n, *q = score.q.data(), *own = g.data();
    with_features(n, [=]<int D>() {
      for (i64 x = 0; x < h; ++x) outer<D>(to + x * channels * n, q + x * channels, grad_u + x * n, channels, n);
      if (!leads) return;
      for (i64 x = 0; x < h; ++x) outer<D>(to + x * channels * n, own + x * channels, mean + x * n, channels, n);
    });
  }

  void end(const A* state, i64 row) {
    load(total.data(), state, heads() * c());
    if (features()) score.add_from_features(total.data(), state + heads() * c());
    store(grad_query + row * heads() * c(), total.data(), heads() * c());
  }
};

template <class T, class I, int C> struct Source {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> query, grad_out;
  const A *alpha, *grad_score;
  T *grad_key, *grad_value;
  i64 heads, channels, value_channels;

  i64 c() const { return width<C>(channels); }
  i64 cv() const { return C ? C : value_channels; }
  i64 state_size() const { return heads * (c() + cv()); }
  i64 shared_size() const { return 0; }
  void prepare() {}
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void edges(A* state, A*, i64, i64 first, i64 last) const {
    A *grad_k = state, *grad_v = state + heads * c();
    for (i64 at = first; at < last; ++at) {
      if (at + ahead < graph.e) {
        prefetch(query[graph.row[at + ahead]], heads * c());
        prefetch(grad_out[graph.row[at + ahead]], heads * cv());
        prefetch(alpha + graph.csr2csc[at + ahead] * heads, heads);
        prefetch(grad_score + graph.csr2csc[at + ahead] * heads, heads);
      }
      const i64 i = graph.row[at], y = graph.csr2csc[at] * heads;
      const T *q = query[i], *g = grad_out[i];
      for (i64 x = 0; x < heads; ++x) axpy<C>(grad_k + x * c(), grad_score[y + x], q + x * c(), c());
      for (i64 x = 0; x < heads; ++x) axpy<C>(grad_v + x * cv(), alpha[y + x], g + x * cv(), cv());
    }
  }
  void end(const A* state, i64 source) const {
    store(grad_key + source * heads * c(), state, heads * c());
    store(grad_value + source * heads * cv(), state + heads * c(), heads * cv());
  }
};

// Channel counts that are compiled in serve key and value alike.
i64 common_channels(const DotProductArgs& args) {
  return args.channels == args.value_channels ? args.channels : 0;
}

void dot_product_forward(const DotProductArgs& args) {
  dispatch(args.dtype, args.is_int64, common_channels(args), [&]<class T, class I, int C>() {
    attend<T, I, C>(score_of<T, I, C>(args), args, args.value, args.heads, args.value_channels);
  });
}

void dot_product_backward(const DotProductArgs& args) {
  dispatch(args.dtype, args.is_int64, common_channels(args), [&]<class T, class I, int C>() {
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const i64 heads = args.heads, work = heads * (args.channels + args.value_channels + 8);
    const auto alpha = scratch<A>(edges.e * heads), grad_score = scratch<A>(edges.e * heads);
    std::vector<A> total(heads * args.channels * args.features);
    const Destination<T, I, C> destinations{
        .score = score_of<T, I, C>(args),
        .grad_out = args.grad_out,
        .out = static_cast<const A*>(args.out_acc),
        .edge_out = static_cast<const A*>(args.edge_out),
        .row_max = static_cast<const A*>(args.row_max),
        .row_sum = static_cast<const A*>(args.row_sum),
        .grad_query = static_cast<T*>(args.grad_query),
        .grad_bias = static_cast<T*>(args.grad_bias),
        .grad_edge_attr = static_cast<T*>(args.grad_edge_attr),
        .alpha = alpha.get(),
        .grad_score = grad_score.get(),
        .mask = mask_of<A>(args.seed, args.dropout, heads),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work, destinations, total.data());
    store(static_cast<T*>(args.grad_edge_proj), total.data(), i64(total.size()));
    const Source<T, I, C> sources{
        .graph = edges,
        .query = args.query,
        .grad_out = args.grad_out,
        .alpha = alpha.get(),
        .grad_score = grad_score.get(),
        .grad_key = static_cast<T*>(args.grad_key),
        .grad_value = static_cast<T*>(args.grad_value),
        .heads = heads,
        .channels = args.channels,
        .value_channels = args.value_channels,
    };
    walk_rows(edges.colptr, edges.m, work, sources);
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
