// These kernels compute attention with GAT's score, for GATConv and SuperGATConv:
//
//   s_ij = LeakyReLU(z_ij), z_ij = a_i + b_j + c_ij, scalars per head
//
// The file edge_terms.h applies the bias, weight and dropout of the edges. Below, p is alpha, and k
// is the product of dropout factor and edge weight, by which p is multiplied.
//
// For each edge, forward reads one row of values (h_v c elements) and h key scores. It writes n h c
// elements of the output and, for backward, O+ - p+ O (`out_pos_centered`). Here O+ and p+ are the
// parts of the output and of the sum of the softmax weights that come from edges with z > 0.
//
// Over the edges of a row, the gradients of the scores sum to zero. Backward uses this property:
//   ds_ij = p_ij (k_ij <dO_i, v_j> - D_i), D_i = <dO_i, O_i>
//   da_i  = (1 - negative_slope) <dO_i, O+_i - p+_i O_i>
// Because of the second equation, da needs no pass over the edges. If da is not needed, forward
// does not write O+ - p+ O. One pass over the edges out of each source computes dv_j and db_j. The
// derivation is in docs/kernels.md.
//
// Rows with few edges, such as atoms, are an exception: forward does not write O+_i - p+_i O_i, and
// backward reads the values of the edges again instead:
//   D_i = sum_j p_ij <dO_i, v_j>   da_i = sum_j ds_ij LeakyReLU'(z_ij)
#include "attention.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define GAT_FIELDS(FIELD)                                                         \
  FIELD(Dtype, dtype)                                                                  \
  GATTN_LAYOUT_FIELDS(FIELD)                                                           \
  GATTN_TERMS_FIELDS(FIELD)                                                            \
  FIELD(i64, heads) FIELD(i64, value_heads) FIELD(i64, channels)                       \
  FIELD(double, negative_slope)                                                        \
  FIELD(Rows, query_score) FIELD(Rows, key_score) FIELD(Rows, value)                   \
  FIELD(Rows, edge_score)                                                              \
  FIELD(void*, out) FIELD(void*, out_acc) FIELD(void*, row_max) FIELD(void*, row_sum)  \
  FIELD(void*, out_pos_centered)                                                       \
  FIELD(Rows, grad_out)                                                                \
  FIELD(void*, grad_query_score) FIELD(void*, grad_key_score) FIELD(void*, grad_value) \
  FIELD(void*, grad_edge_score)
// clang-format on
GATTN_ARGS(GATArgs, GAT_FIELDS);

// This class decides whether a row has so few edges that backward reads their values again. If
// there are edge terms, no row is processed in this way.
template <class I> struct ShortRows {
  static constexpr i64 max_edges = 6;

  Indices<I> rowptr;
  bool apply;

  bool operator()(i64 row) const { return apply && rowptr[row + 1] - rowptr[row] <= max_edges; }
};

template <class I> ShortRows<I> short_rows(const GATArgs& args) {
  const bool has_terms = args.attn_bias.data || args.edge_weight.data || args.seed;
  return {Edges<I>(args).rowptr, !has_terms && args.value_heads == args.heads};
}

// Compute the sum b_j + c_ij, to which a_i is added afterwards. Forward and backward must add in
// this order. Otherwise the rounding errors of large scores would differ between forward and
// backward.
template <class A, class T>
GATTN_INLINE void load_key_score(A* to, const T* key, const T* edge, i64 heads, i64 lanes) {
  load_heads(to, key, heads, lanes);
  if (edge) axpy<0>(to, A(1), edge, heads);
}

// Compute O+_x - p+_x O_x of a row for each head x, from the sums `plus` and `mass` over the edges
// with z > 0, which are multiplied by inverse_x. Shapes: to, plus and out [h, c], mass and inverse
// [h].
template <class A> [[gnu::noinline]] void centre(A* to, const A* plus, const A* mass,
                                                 const A* inverse, const A* out, i64 heads,
                                                 i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 x = 0; x < heads; ++x) {
      const A p_plus = mass[x] * inverse[x];
#pragma omp simd
      for (i64 k = x * c; k < (x + 1) * c; ++k) to[k] = plus[k] * inverse[x] - p_plus * out[k];
    }
  });
}

// This class computes GAT's score for the forward pass in attention.h.
template <class T, class I> struct GATScore {
  using A = acc_t<T>;
  static constexpr i64 value_prefetch_distance = 2 * prefetch_distance;

  Edges<I> graph;
  Table<const T> query_score, key_score;
  EdgeRows<T> edge_score;
  i64 heads, lanes, value_heads, channels;
  A negative_slope;
  // The pointer is null if the gradient da is not needed.
  A* out_pos_centered;
  ShortRows<I> is_short;

  // For each edge of a block and each head, `positive` contains 1 if z > 0, otherwise 0.
  Buffer<A> a, positive;
  Buffer<const A*> weights;

  bool has_extra(i64 row) const { return out_pos_centered && !is_short(row); }
  void prefetch_row(i64 row) const {
    const i64 size = heads * channels;
    if (has_extra(row)) prefetch<1>(out_pos_centered + row * size, size);
  }
  i64 extra_size() const { return out_pos_centered ? channels : 0; }
  void prepare() {
    edge_score.prepare(), a.resize(lanes), positive.resize(block * lanes), weights.resize(block);
    point_to_rows<A>(weights.data(), positive.data(), block, lanes);
  }
  void set_end(i64 last) { edge_score.end = last; }
  void begin(i64 row) { load_heads(a.data(), query_score[row], heads, lanes); }

  void scores(i64 first, i64 count, A* __restrict s) {
    const A* query = a.data();
    const A slope = negative_slope;
    const T* edge = edge_score ? edge_score.of(first, count) : nullptr;
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      if (at + prefetch_distance < graph.e)
        prefetch(key_score[graph.col[at + prefetch_distance]], heads);
      A *z = s + t * lanes, *is_positive = positive.data() + t * lanes;
      load_key_score(z, key_score[graph.col[at]], edge ? edge + t * heads : nullptr, heads, lanes);
      for_lanes(lanes, [=](i64 x) {
        const A sum = query[x] + z[x], scaled = slope * sum;
        is_positive[x] = sum > 0 ? A(1) : A(0);
        z[x] = sum > 0 ? sum : scaled;
      });
    }
  }

  void accumulate_extra(A* plus, A* mass, i64, i64 count, const A* before, const A* after,
                        const T* const* rows) {
    A* is_positive = positive.data();
    reduce_lanes(mass, count, lanes,
                 [=](A sum, i64 y) { return sum + is_positive[y] * before[y]; });
    for_lanes(count * lanes, [=](i64 y) { is_positive[y] *= after[y]; });
    add_weighted_rows(plus, false, count, heads, value_heads, channels, weights.data(), rows);
  }

  void end(A* out, const A* plus, const A* mass, const A* inverse, i64 row) {
    if (!has_extra(row)) return;
    centre(out_pos_centered + row * heads * channels, plus, mass, inverse, out, heads, channels);
  }
};

// This kernel body computes the gradient da, and the terms of a destination that backward reads for
// each of its edges. These terms are a, the maximum, 1 / sum and delta = D. Each has shape [h], and
// they are adjacent in `packed`.
template <class T, class I> struct GATRowTerms {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> query_score, key_score, edge_score, value, grad_out;
  const A *out, *centered, *row_max, *row_sum;
  ShortRows<I> is_short;
  i64 heads, lanes, channels;
  A negative_slope;
  A* packed;
  T* grad_query;

  Buffer<A> g, a, inverse, shift, delta, grad_a, z, p, products;

  i64 state_size() const { return 0; }
  i64 shared_size() const { return 0; }
  void prepare() {
    g.resize(heads * channels);
    for (auto* row : {&a, &inverse, &shift, &delta, &grad_a}) row->resize(lanes);
    for (auto* rows : {&z, &p, &products}) rows->resize(ShortRows<I>::max_edges * lanes);
  }
  void begin(A*) const {}
  void merge(A*, const A*) const {}
  void prefetch_row(i64 row) const {
    const i64 size = heads * channels;
    prefetch(grad_out[row], size);
    if (is_short(row)) return;
    prefetch(out + row * size, size);
    if (centered) prefetch(centered + row * size, size);
  }
  void add_edges(A*, A*, i64, i64, i64) const {}

  void end(const A*, i64 row) {
    load_heads(a.data(), query_score[row], heads, lanes);
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads, lanes);
    if (is_short(row))
      sum_over_edges(row);
    else
      read_outputs(row);
    const A* const terms[] = {a.data(), shift.data(), inverse.data(), delta.data()};
    for (i64 k = 0; k < 4; ++k) copy_heads(packed + (4 * row + k) * heads, terms[k], heads);
    store(grad_query + row * heads, grad_a.data(), heads);
  }

 private:
  // Compute D and the gradient da of a row from its outputs O_i and O+_i - p+_i O_i.
  void read_outputs(i64 row) {
    const T* grad = grad_out[row];
    dot_rows<T>(delta.data(), lanes, out + row * heads * channels, &grad, nullptr, 1, heads,
                channels);
    fill(grad_a.data(), A(0), lanes);
    if (!centered) return;
    dot_rows<T>(grad_a.data(), lanes, centered + row * heads * channels, &grad, nullptr, 1, heads,
                channels);
    scale_by<0>(grad_a.data(), 1 - negative_slope, heads);
  }

  // Compute D and the gradient da of a short row as sums over its edges.
  void sum_over_edges(i64 row) {
    const A* grad = widened(g.data(), grad_out[row], heads * channels);
    const i64 first = graph.rowptr[row], count = graph.rowptr[row + 1] - first;
    const T* values[ShortRows<I>::max_edges];
    for (i64 t = 0; t < count; ++t) {
      const i64 j = graph.col[first + t];
      const T* edge = edge_score ? edge_score[graph.perm[first + t]] : nullptr;
      values[t] = value[j];
      load_key_score(z.data() + t * lanes, key_score[j], edge, heads, lanes);
    }
    dot_rows<T>(products.data(), lanes, grad, values, nullptr, count, heads, channels);
    for (i64 x = 0; x < lanes; x += lane) sum_lanes(x, count);
  }

  // Compute D and the gradient da of `lane` heads, beginning with head x.
  void sum_lanes(i64 x, i64 count) {
    const A slope = negative_slope, *query = a.data() + x, *max = shift.data() + x,
            *inverse_sum = inverse.data() + x;
    A d[lane] = {}, da[lane] = {};
    for (i64 t = 0; t < count; ++t) {
      A *z_t = z.data() + t * lanes + x, *alpha = p.data() + t * lanes + x;
      const A* product = products.data() + t * lanes + x;
#pragma omp simd
      for (i64 k = 0; k < lane; ++k) {
        const A sum = query[k] + z_t[k], scaled = slope * sum;
        z_t[k] = sum;
        alpha[k] = exp_below((sum > 0 ? sum : scaled) - max[k]) * inverse_sum[k];
        d[k] += alpha[k] * product[k];
      }
    }
    for (i64 t = 0; centered && t < count; ++t) {
      const A *z_t = z.data() + t * lanes + x, *alpha = p.data() + t * lanes + x,
              *product = products.data() + t * lanes + x;
#pragma omp simd
      for (i64 k = 0; k < lane; ++k)
        da[k] += alpha[k] * (product[k] - d[k]) * (z_t[k] > 0 ? A(1) : slope);
    }
#pragma omp simd
    for (i64 k = 0; k < lane; ++k) delta[x + k] = d[k], grad_a[x + k] = da[k];
  }
};

// This kernel body computes the gradients dv_j and db_j and the gradients of all edge terms in one
// pass by source.
template <class T, class I> struct GATBackward {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> key_score, value, grad_out;
  EdgeRows<T> edge_score;
  const A* packed;
  T *grad_key_score, *grad_value;
  i64 heads, lanes, value_heads, channels;
  A negative_slope;
  EdgeTerms<T> terms;

  Buffer<A> b, v, z, p, ds, zeros;
  // The value of the source, [h, c]. If values have fewer heads, each of them is repeated.
  const A* value_row = nullptr;
  // Rows of grad_out of a block of edges and of later edges, and pointers to the weights.
  Buffer<const T*> rows, ahead;
  Buffer<const A*> weights;

  i64 state_size() const { return lanes + value_heads * channels; }
  i64 shared_size() const { return 0; }
  void prepare() {
    b.resize(lanes), v.resize(heads * channels);
    terms.prepare(), edge_score.prepare(), zeros.resize(lanes);
    for (auto* scratch : {&z, &p, &ds}) scratch->resize(block * lanes);
    rows.resize(block), ahead.resize(block), weights.resize(block);
    point_to_rows<A>(weights.data(), p.data(), block, lanes);
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 source) const {
    prefetch(value[source], value_heads * channels);
    prefetch<1>(grad_value + source * value_heads * channels, value_heads * channels);
  }
  void set_end(i64 last) {
    terms.set_end(last);
    edge_score.end = last;
  }
  void finish(A*) { terms.finish(), edge_score.flush(); }

  void add_edges(A* state, A*, i64 source, i64 first, i64 last) {
    load_heads(b.data(), key_score[source], heads, lanes);
    if (value_heads == heads)
      value_row = widened(v.data(), value[source], heads * channels);
    else
      value_row = repeat_heads(value[source]);
    begin(state);
    A *grad_b = state, *grad_v = state + lanes;
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      scores(at, count);
      if (terms.bias) add_bias(at, count);
      gradients(at, count);
      T* edge = edge_score.gradient ? edge_score.of(at, count) : nullptr;
      const A* grad_z = ds.data();
      reduce_lanes(grad_b, count, lanes, [=](A sum, i64 y) { return sum + grad_z[y]; });
      for (i64 t = 0; edge && t < count; ++t) store(edge + t * heads, grad_z + t * lanes, heads);
      value_gradient(grad_v, count);
    }
  }

  const A* repeat_heads(const T* from) {
    for (i64 x = 0; x < heads; x += value_heads)
      load(v.data() + x * channels, from, value_heads * channels);
    return v.data();
  }

  void value_gradient(A* to, i64 count) {
    if (value_heads == heads)
      return add_weighted_rows(to, false, count, heads, heads, channels, weights.data(),
                               rows.data());
    for (i64 t = 0; t < count; ++t)
      for (i64 x = 0; x < heads; ++x)
        axpy<0>(to + x % value_heads * channels, p[t * lanes + x], rows[t] + x * channels,
                channels);
  }

  // For each edge of a block, compute z, the exponent of alpha (which is written to p), and <dO_i,
  // v_j> (which is written to ds).
  void scores(i64 first, i64 count) {
    const T* edge = edge_score ? edge_score.of(first, count) : nullptr;
    for (i64 t = 0; t < count; ++t) {
      const i64 next = graph.row[std::min(first + t + prefetch_distance, graph.e - 1)];
      rows[t] = grad_out[graph.row[first + t]], ahead[t] = grad_out[next];
      prefetch_from(graph.is_large, packed + next * (4 * heads), 4 * heads);
    }
    dot_rows(ds.data(), lanes, value_row, rows.data(), ahead.data(), count, heads, channels,
             graph.is_large);
    for (i64 t = 0; t < count; ++t) {
      const A *row_terms = packed + graph.row[first + t] * 4 * heads, *key = b.data();
      A *sum = z.data() + t * lanes, *exponent = p.data() + t * lanes;
      // The terms of z are added in the same order as in forward. In another order, the rounding
      // errors of large scores would differ between forward and backward.
      if (edge) {
        for_lanes(lanes, [=](i64 x) { sum[x] = key[x]; });
        axpy<0>(sum, A(1), edge + t * heads, heads);
        for_lanes(lanes, [=](i64 x) { sum[x] = row_terms[x] + sum[x]; });
      } else {
        for_lanes(lanes, [=](i64 x) { sum[x] = row_terms[x] + key[x]; });
      }
      // If there is a bias, the maximum is subtracted after the bias was added, as in forward.
      const A* shift = terms.bias ? zeros.data() : row_terms + heads;
      const A slope = negative_slope;
      for_lanes(lanes, [=](i64 x) {
        const A scaled = slope * sum[x];
        exponent[x] = (sum[x] > 0 ? sum[x] : scaled) - shift[x];
      });
    }
  }

  // Add the bias of each edge to its exponent, then subtract the maximum of the edge's destination.
  void add_bias(i64 first, i64 count) {
    terms.add_bias(p.data(), first, count);
    for (i64 t = 0; t < count; ++t) {
      const A* shift = packed + graph.row[first + t] * (4 * heads) + heads;
      A* exponent = p.data() + t * lanes;
      for_lanes(lanes, [=](i64 x) { exponent[x] -= shift[x]; });
    }
  }

  // For each edge of a block, write the product of alpha, dropout factor and edge weight to p, and
  // the gradient of z to ds.
  void gradients(i64 first, i64 count) {
    A *alphas = p.data(), *grads = ds.data();
    exponentials(alphas, count * lanes);
    if (terms.has_factors()) terms.scale_products(grads, first, count);
    for (i64 t = 0; t < count; ++t) {
      const A* row_terms = packed + graph.row[first + t] * (4 * heads);
      A *alpha = alphas + t * lanes, *grad_score = grads + t * lanes;
      const A *inverse = row_terms + 2 * heads, *delta = row_terms + 3 * heads;
      for_lanes(lanes, [=](i64 x) {
        const A weight = alpha[x] * inverse[x];
        alpha[x] = weight;
        grad_score[x] = weight * (grad_score[x] - delta[x]);
      });
    }
    if (terms.bias.gradient) terms.store_bias_gradients(grads, first, count);
    const A slope = negative_slope, *sum = z.data();
    for_lanes(count * lanes, [=](i64 y) { grads[y] *= sum[y] > 0 ? A(1) : slope; });
    if (terms.has_factors()) terms.scale_weights(alphas, first, count);
  }

  void end(const A* state, i64 source) const {
    store(grad_key_score + source * heads, state, heads);
    store(grad_value + source * value_heads * channels, state + lanes, value_heads * channels);
  }
};

void gat_forward(const GATArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    using A = acc_t<T>;
    const GATScore<T, I> score{
        .graph = Edges<I>(args),
        .query_score = args.query_score,
        .key_score = args.key_score,
        .edge_score = edge_rows<T>(args, args.edge_score, nullptr, args.heads),
        .heads = args.heads,
        .lanes = lanes_of(args.heads),
        .value_heads = args.value_heads,
        .channels = args.channels,
        .negative_slope = A(args.negative_slope),
        .out_pos_centered = static_cast<A*>(args.out_pos_centered),
        .is_short = short_rows<I>(args),
    };
    attend<T, I>(score, args, args.value, args.value_heads, args.channels);
  });
}

void gat_backward(const GATArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    using A = acc_t<T>;
    // The buffer contains one additional vector, because the padding lanes of the last node read
    // beyond its terms.
    const auto packed = scratch<A>(args.n * 4 * args.heads + lane);
    const Edges<I> edges(args);
    const GATRowTerms<T, I> row_terms{
        .graph = edges,
        .query_score = args.query_score,
        .key_score = args.key_score,
        .edge_score = args.edge_score,
        .value = args.value,
        .grad_out = args.grad_out,
        .out = static_cast<const A*>(args.out_acc),
        .centered = static_cast<const A*>(args.out_pos_centered),
        .row_max = static_cast<const A*>(args.row_max),
        .row_sum = static_cast<const A*>(args.row_sum),
        .is_short = short_rows<I>(args),
        .heads = args.heads,
        .lanes = lanes_of(args.heads),
        .channels = args.channels,
        .negative_slope = A(args.negative_slope),
        .packed = packed.get(),
        .grad_query = static_cast<T*>(args.grad_query_score),
    };
    walk_rows(edges.rowptr, edges.n, args.heads * (args.channels + 8), row_terms);
    const GATBackward<T, I> body{
        .graph = edges,
        .key_score = args.key_score,
        .value = args.value,
        .grad_out = args.grad_out,
        .edge_score = edge_rows<T>(args, args.edge_score, args.grad_edge_score, args.heads, true),
        .packed = packed.get(),
        .grad_key_score = static_cast<T*>(args.grad_key_score),
        .grad_value = static_cast<T*>(args.grad_value),
        .heads = args.heads,
        .lanes = lanes_of(args.heads),
        .value_heads = args.value_heads,
        .channels = args.channels,
        .negative_slope = A(args.negative_slope),
        .terms = terms_of<T>(args, true),
    };
    walk_rows(edges.colptr, edges.m, args.heads * (2 * args.channels + 16), body);
  });
}

}  // namespace

std::span<const Kernel> gat_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(gat_forward, GATArgs),
      GATTN_KERNEL(gat_backward, GATArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
