// Dot-product attention with factored edge features, of TransformerConv, AGNNConv, the
// learned-query readout and self-attention:
//
//   s_ij = scale (q_i . k_j + u_i . a_ij)     u_i = W^T q_i, [h, d]
//   out_i = O_i + W E_i     O_i = sum_j alpha_ij v_j    E_i = sum_j alpha_ij a_ij, [h, d]
//
// The bias, weight and dropout of an edge are those of edge_terms.h: k below is what alpha is
// multiplied by. Forward reads, per edge, a row of k and one of v (2 h c elements) and d features;
// per row of the output it multiplies twice with W, which stays in cache. Where there are features
// and backward may follow, it writes O and E beside out.
//
// Backward is two walks. Over the edges into each destination, k and v are gathered again, alpha
// and the score's gradient are formed,
//   ds_ij = alpha_ij (k_ij (<dO_i, v_j> + (W^T dO_i) . a_ij) - D_i), D_i = <dO_i, O_i + W E_i>
// dq_i = sum_j ds_ij k_j + W du_i with du_i = sum_j ds_ij a_ij, dW = sum_i q_i du_i^T + dO_i E_i^T,
// da, db and dw are finished, and k alpha and scale ds are handed over, [e, h] in CSR order. Over
// the edges out of each source, dk_j = sum_i ds_ij q_i and dv_j = sum_i k_ij alpha_ij dO_i then
// gather q and dO and compute nothing else. The derivation is in docs/kernels.md.
#include "attention.h"
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

// What edges with features need and the number of channels does not change: compiled once a type.

// W^T x, [h, d], with W [h, c, d].
template <class A>
[[gnu::noinline]] void to_features(A* to, const A* matrix, const A* x, i64 heads, i64 c, i64 d) {
  fill(to, A(0), heads * d);
  with_features(d, [=]<int D>() { axpy_matrices<D>(to, x, matrix, heads, c, d); });
}

// to[t][x] += <from_x, rows[t]>: [count, lanes] from [h, d] and a block of rows of features.
template <class T, class A> [[gnu::noinline]] void add_feature_dots(A* to, const A* from,
                                                                    const T* const* rows, i64 count,
                                                                    i64 heads, i64 lanes, i64 d) {
  with_features(d, [=]<int D>() {
    for (i64 t = 0; t < count; ++t)
      sums_of_heads<D, T, adds>(to + t * lanes, heads, d, [=, row = rows[t]](auto at) {
        return at.of(from, at.head * d) * at.of(row, 0);
      });
  });
}

// to_x += sum over t of weight[t][x] rows[t]: [h, d] from [count, lanes].
template <class T, class A> [[gnu::noinline]] void add_feature_rows(A* to, const A* weight,
                                                                    const T* const* rows, i64 count,
                                                                    i64 heads, i64 lanes, i64 d) {
  with_features(d, [=]<int D>() {
    add_rows<D, T>(
        to, false, count, heads, d, [=](i64 t) { return weight + t * lanes; },
        [=](i64 t) { return rows[t]; }, [](i64) { return 0; });
  });
}

// to_x += <from_x, mean_x>, [h] from [h, d].
template <class A>
[[gnu::noinline]] void add_head_dots(A* to, const A* from, const A* mean, i64 heads, i64 d) {
  with_features(d, [=]<int D>() { head_dots<D, adds>(to, from, mean, heads, d); });
}

// to = sum over x of a_x u_x + b_x w_x, [d] from [h] and [h, d].
template <class A> [[gnu::noinline]] void feature_gradient(A* to, const A* a, const A* u,
                                                           const A* b, const A* w, i64 heads,
                                                           i64 d) {
  fill(to, A(0), d);
  with_features(d, [=]<int D>() {
    axpy_matrices<D>(to, a, u, 1, heads, d);
    axpy_matrices<D>(to, b, w, 1, heads, d);
  });
}

template <class T, class I, int C> struct DotProductScore {
  using A = acc_t<T>;
  static constexpr i64 values_ahead = ahead;

  Edges<I> graph;
  Table<const T> query, key, value, edge_attr, edge_proj;
  i64 heads, lanes, channels, value_channels, features;
  A scale;
  A* edge_out;

  Buffer<A> q, u, projection, transposed;  // W as [h, c, d] and as [h, d, c]
  Buffer<const T*> attr_rows;              // of a block
  const A* own_query = nullptr;

  i64 extra_size() const { return features; }
  bool takes(i64) const { return features; }
  void expect(i64 row) const {
    prefetch(query[row], heads * width<C>(channels));
    if (edge_out) prefetch<1>(edge_out + row * heads * features, heads * features);
  }
  void prepare() {
    q.resize(heads * channels), u.resize(heads * features), attr_rows.resize(block);
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
    own_query = widened(q.data(), query[row], heads * width<C>(channels));
    if (features) project(u.data(), own_query);
  }

  void project(A* to, const A* x) const {
    to_features(to, projection.data(), x, heads, width<C>(channels), features);
  }

  // to += W x, [h, c].
  void add_from_features(A* to, const A* x) const {
    axpy_matrices<C>(to, x, transposed.data(), heads, features, width<C>(channels));
  }

  // Also of use to backward, which asks for them again.
  [[gnu::noinline]] void scores(i64 first, i64 count, A* __restrict s) {
    const i64 c = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t, j = graph.col[at];
      if (at + ahead < graph.e) {
        prefetch(key[graph.col[at + ahead]], heads * c);
        if (features) prefetch(edge_attr[graph.perm[at + ahead]], features);
      }
      const T* k = key[j];
      A* own = s + t * lanes;
      head_dots<C>(own, own_query, k, heads, c);
    }
    if (features) {
      for (i64 t = 0; t < count; ++t) attr_rows[t] = edge_attr[graph.perm[first + t]];
      add_feature_dots(s, u.data(), attr_rows.data(), count, heads, lanes, features);
    }
    const A factor = scale;
    for_lanes(count * lanes, [=](i64 y) { s[y] *= factor; });
  }

  void take(A* sum, A*, i64, i64 count, const A*, const A* after, const T* const*, const i64*) {
    add_feature_rows(sum, after, attr_rows.data(), count, heads, lanes, features);
  }

  void end(A* acc, const A* sum, const A*, const A* inverse, i64 row) {
    if (!features) return;
    A* mean = u.data();  // the next row begins with its own
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < features; ++k)
        mean[x * features + k] = sum[x * features + k] * inverse[x];
    add_from_features(acc, mean);
    if (edge_out) load(edge_out + row * heads * features, mean, heads * features);
  }
};

template <class T, class I, int C> DotProductScore<T, I, C> score_of(const DotProductArgs& args) {
  return {
      .graph = Edges<I>(args),
      .query = args.query,
      .key = args.key,
      .value = args.value,
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

template <class T, class I, int C> struct DotProductBackwardByDestination {
  using A = acc_t<T>;

  DotProductScore<T, I, C> score;
  Table<const T> grad_out;
  const A *out, *edge_out, *row_max, *row_sum;
  T *grad_query, *grad_edge_attr;
  HandedOver<A> handed;
  EdgeTerms<T, I> terms;

  Buffer<A> s, ds, g, grad_edge_out, grad_attr, delta, shift, inverse, total;
  const A* own_grad = nullptr;
  Buffer<A> left, right;  // pairs of rows whose products wait to join dW
  i64 waiting = 0;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return width<C>(score.channels); }
  i64 cv() const { return C ? C : score.value_channels; }
  i64 features() const { return score.features; }
  i64 state_size() const { return heads() * (c() + features()); }
  i64 shared_size() const { return heads() * c() * features(); }  // dW, a sum over all rows
  void prepare() {
    score.prepare(), terms.prepare();
    s.resize(block * lanes()), ds.resize(block * lanes());
    g.resize(heads() * cv()), grad_edge_out.resize(heads() * features()),
        grad_attr.resize(features());
    delta.resize(lanes()), shift.resize(lanes()), inverse.resize(lanes());
    total.resize(heads() * c());
    if (features())
      left.resize(most_waiting * heads() * c()), right.resize(most_waiting * heads() * features());
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void expect(i64 row) const {
    prefetch(score.query[row], heads() * c());
    prefetch(grad_out[row], heads() * cv());
    prefetch(out + row * heads() * cv(), heads() * cv());
    if (features()) prefetch(edge_out + row * heads() * features(), heads() * features());
    prefetch<1>(grad_query + row * heads() * c(), heads() * c());
  }
  void follow(i64 last) { terms.follow(last); }
  void finish(A* shared) {
    if (features()) join_products(shared);
    terms.finish();
  }

  void begin_row(i64 row) {
    score.begin(row);
    own_grad = widened(g.data(), grad_out[row], heads() * cv());
    if (features()) score.project(grad_edge_out.data(), own_grad);
    // The same sum as for an edge: without dropout the two cancel to the last bit in a row of one.
    head_dots<C>(delta.data(), own_grad, out + row * heads() * cv(), heads(), cv());
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads(), lanes());
    // (W^T dO_i) . E_i joins D_i.
    if (features())
      add_head_dots(delta.data(), grad_edge_out.data(), edge_out + row * heads() * features(),
                    heads(), features());
  }

  void edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    A *grad_q = state, *grad_u = state + heads() * c();
    begin_row(row);
    fill(grad_u, A(0), heads() * features());
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      if (terms.bias) terms.add_bias(s.data(), at, count);
      inner_products(at, count);
      gradients(at, count);
      add_rows<C, T>(
          grad_q, at == first, count, heads(), c(),
          [this](i64 t) { return ds.data() + t * lanes(); },
          [=, this](i64 t) { return score.key[score.graph.col[at + t]]; },
          [this](i64 x) { return x * c(); });
      for (i64 t = 0; t < count; ++t) {
        const i64 position = at + t;
        const A* change = ds.data() + t * lanes();
        handed.store(position, s.data() + t * lanes(), change);
        if (grad_edge_attr)
          edge_gradient(change, s.data() + t * lanes(), score.graph.perm[position]);
      }
      if (features())
        add_feature_rows(grad_u, ds.data(), score.attr_rows.data(), count, heads(), lanes(),
                         features());
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
        if (grad_edge_attr)
          prefetch<1>(grad_edge_attr + graph.perm[at + ahead] * features(), features());
      }
      const T* v = score.value[graph.col[at]];
      A* inner = ds.data() + t * lanes();
      head_dots<C>(inner, own_grad, v, heads(), cv());
    }
    if (features())
      add_feature_dots(ds.data(), grad_edge_out.data(), score.attr_rows.data(), count, heads(),
                       lanes(), features());
  }

  // alpha times its factors into s, scale times the score's gradient into ds.
  void gradients(i64 first, i64 count) {
    A *flat = s.data(), *inner = ds.data();
    const A *own_shift = shift.data(), *inv = inverse.data(), *own_delta = delta.data();
    const A factor = score.scale;
    for (i64 t = 0; t < count; ++t) {
      A* exponent = flat + t * lanes();
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= own_shift[x]; });
    }
    exponentials(flat, count * lanes());
    if (terms.has_factors()) terms.scale_products(inner, first, count);
    for (i64 t = 0; t < count; ++t) {
      A *p = flat + t * lanes(), *change = ds.data() + t * lanes();
      for_lanes(lanes(), [=](i64 x) {
        p[x] *= inv[x];
        change[x] = p[x] * (change[x] - own_delta[x]);
      });
    }
    if (terms.bias.back) terms.store_bias_gradients(inner, first, count);
    for_lanes(count * lanes(), [=](i64 y) { inner[y] *= factor; });
    if (terms.has_factors()) terms.scale_weights(flat, first, count);
  }

  void edge_gradient(const A* change, const A* weight, i64 edge) {
    feature_gradient(grad_attr.data(), change, score.u.data(), weight, grad_edge_out.data(),
                     heads(), features());
    store(grad_edge_attr + edge * features(), grad_attr.data(), features());
  }

  // dW of these edges; that of E, which is of the whole row, goes with the first ones.
  void weight_gradient(A* to, const A* grad_u, i64 row, bool leads) {
    add_product(to, score.own_query, grad_u);
    if (leads) add_product(to, own_grad, edge_out + row * heads() * features());
  }

  // to_x += a_x b_x^T, [h, c, d] from [h, c] and [h, d]: several of them at a time, since to is as
  // large as many rows.
  void add_product(A* to, const A* a, const A* b) {
    std::copy_n(a, heads() * c(), left.data() + waiting * heads() * c());
    std::copy_n(b, heads() * features(), right.data() + waiting * heads() * features());
    if (++waiting == most_waiting) join_products(to);
  }

  void join_products(A* to) {
    const i64 n = c(), d = features();
    for (i64 x = 0; x < heads(); ++x)
      multiply_add(to + x * n * d, left.data() + x * n, 1, heads() * n, right.data() + x * d, n,
                   waiting, d, heads() * d);
    waiting = 0;
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

template <class T, class I, int C> struct DotProductBackwardBySource {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> query, grad_out;
  HandedOver<A> handed;
  T *grad_key, *grad_value;
  i64 heads, channels, value_channels;

  i64 c() const { return width<C>(channels); }
  i64 cv() const { return C ? C : value_channels; }
  i64 state_size() const { return heads * (c() + cv()); }
  i64 shared_size() const { return 0; }
  void prepare() {}
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void expect(i64 source) const {
    prefetch<1>(grad_key + source * heads * c(), heads * c());
    prefetch<1>(grad_value + source * heads * cv(), heads * cv());
  }
  void edges(A* state, A*, i64, i64 first, i64 last) const {
    A *grad_k = state, *grad_v = state + heads * c();
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) ask(at + t + ahead);
      const auto add_weighted = [&](A* to, const A* first_weight, const Table<const T>& from,
                                    i64 n) {
        add_rows<C, T>(
            to, at == first, count, heads, n,
            [=, this](i64 t) { return first_weight + graph.csr2csc[at + t] * handed.step(); },
            [=, this](i64 t) { return from[graph.row[at + t]]; }, [=](i64 x) { return x * n; });
      };
      add_weighted(grad_k, handed.grad_score(0), query, c());
      add_weighted(grad_v, handed.weight(0), grad_out, cv());
    }
  }
  void ask(i64 at) const {
    if (at >= graph.e) return;
    prefetch(query[graph.row[at]], heads * c());
    prefetch(grad_out[graph.row[at]], heads * cv());
    handed.ask(graph.csr2csc[at]);
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
    const auto numbers = scratch<A>(edges.e * 2 * heads);
    const i64 size = heads * args.channels * args.features;
    const Buffer<A> total(size);
    const DotProductBackwardByDestination<T, I, C> by_destination{
        .score = score_of<T, I, C>(args),
        .grad_out = args.grad_out,
        .out = static_cast<const A*>(args.out_acc),
        .edge_out = static_cast<const A*>(args.edge_out),
        .row_max = static_cast<const A*>(args.row_max),
        .row_sum = static_cast<const A*>(args.row_sum),
        .grad_query = static_cast<T*>(args.grad_query),
        .grad_edge_attr = static_cast<T*>(args.grad_edge_attr),
        .handed = {numbers.get(), heads},
        .terms = terms_of<T, I>(args),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work, by_destination, total.data());
    store(static_cast<T*>(args.grad_edge_proj), total.data(), size);
    const DotProductBackwardBySource<T, I, C> by_source{
        .graph = edges,
        .query = args.query,
        .grad_out = args.grad_out,
        .handed = by_destination.handed,
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
