// Additive attention: s_ij = LeakyReLU(z_ij), z_ij = a_i + b_j + c_ij, scalars per head.
//
// Forward reads, per edge, one row of value (h_v c elements) and h key scores; it writes n h c
// and, for backward, O+ and p+: the output and the softmax mass over the edges with z > 0.
//
// Backward in one pass over the edges. With D_i = <dO_i, O_i> the softmax gives
//   ds_ij = p_ij (<dO_i, v_j> - D_i),   which sums to zero over a row, so
//   da_i  = sum_j ds_ij (slope + (1 - slope) [z_ij > 0]) = (1 - slope) (<dO_i, O+_i> - D_i p+_i)
// needs no edges at all; one walk over the edges out of each source gives dv_j and db_j.
#include "attention.h"

namespace gattn::GATTN_ISA {

namespace {

template <class T, class I, int C> struct Score {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> query_score, key_score, value, edge_score;
  i64 heads, channels;
  A slope;
  Dropout dropout;
  A *out_plus, *mass_plus;  // null in inference

  std::vector<A> a, positive, none;

  i64 extra_size() const { return out_plus ? width<C>(channels) : 0; }
  void prepare() { a.resize(heads), positive.resize(block * heads); }
  void begin(i64 row) { load(a.data(), query_score[row], heads); }

  void scores(i64 first, i64 count, A* __restrict s) {
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      const T* b = key_score[graph.col[at]];
      prefetch(value[graph.col[at]], t < ahead ? heads * width<C>(channels) : 0);
      A* z = s + t * heads;
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) z[x] = a[x] + wide(b[x]);
      if (edge_score) axpy<0>(z, A(1), edge_score[graph.edge[at]], heads);
    }
    if (out_plus)
#pragma omp simd
      for (i64 y = 0; y < count * heads; ++y) positive[y] = s[y] > 0 ? A(1) : A(0);
#pragma omp simd
    for (i64 y = 0; y < count * heads; ++y) s[y] = s[y] > 0 ? s[y] : slope * s[y];
  }

  void take(A* plus, A* mass, i64 first, i64 count, const A* before, const A* after, const i64* voff) {
    if (!out_plus) return;
    const i64 c = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      const T* v = value[graph.col[first + t]];
      for (i64 x = 0; x < heads; ++x) {
        const i64 y = t * heads + x;
        mass[x] += positive[y] * before[y];
        if (positive[y] != 0) axpy<C>(plus + x * c, after[y], v + voff[x], c);
      }
    }
  }

  void end(const A* plus, const A* mass, const A* inverse, i64 row) {
    if (!out_plus) return;
    const i64 c = width<C>(channels);
    for (i64 x = 0; x < heads; ++x) {
      mass_plus[row * heads + x] = mass[x] * inverse[x];
      A* to = out_plus + (row * heads + x) * c;
#pragma omp simd
      for (i64 k = 0; k < c; ++k) to[k] = plus[x * c + k] * inverse[x];
    }
  }
};

// What backward needs of a destination, side by side: a, max, 1 / sum, D, each [h].
template <class T, int C>
void destinations(const AdditiveArgs& args, acc_t<T>* packed) {
  using A = acc_t<T>;
  const i64 heads = args.heads, c = width<C>(args.channels);
  const Table<const T> grad(args.grad_out), query_score(args.query_score);
  const T* out = static_cast<const T*>(args.out);
  const A *plus = static_cast<const A*>(args.out_plus), *mass = static_cast<const A*>(args.mass_plus);
  const A *row_max = static_cast<const A*>(args.row_max), *row_sum = static_cast<const A*>(args.row_sum);
  T* grad_query = static_cast<T*>(args.grad_query_score);
  const A slope = A(args.negative_slope);
  for_each_row(args.layout.n, heads * args.channels * 2, [&](i64 i) {
    A* own = packed + i * 4 * heads;
    const T* g = grad[i];
    load(own, query_score[i], heads);
    for (i64 x = 0; x < heads; ++x) {
      const i64 y = i * heads + x;
      A d = 0, d_plus = 0;
#pragma omp simd reduction(+ : d, d_plus)
      for (i64 k = 0; k < c; ++k) {
        d += wide(g[x * c + k]) * wide(out[y * c + k]);
        d_plus += wide(g[x * c + k]) * plus[y * c + k];
      }
      own[heads + x] = row_max[y];
      own[2 * heads + x] = Softmax::inverse(row_sum[y]);
      own[3 * heads + x] = d;
      grad_query[y] = narrow<T>((1 - slope) * (d_plus - d * mass[y]));
    }
  });
}

template <class T, class I, int C> struct Backward {
  using A = acc_t<T>;

  Edges<I> graph;
  Table<const T> key_score, value, edge_score, grad_out;
  const A* packed;
  T *grad_key, *grad_value, *grad_edge;
  i64 heads, value_heads, channels;
  A slope;
  Dropout dropout;

  std::vector<A> b, v, z, p, ds, factor;
  std::vector<i64> voff;

  i64 c() const { return width<C>(channels); }
  i64 state_size() const { return value_heads * c() + heads; }
  i64 shared_size() const { return 0; }
  void prepare() {
    b.resize(heads), v.resize(value_heads * c()), voff.resize(heads);
    for (auto* scratch : {&z, &p, &ds, &factor}) scratch->resize(block * heads);
    for (i64 x = 0; x < heads; ++x) voff[x] = (x % value_heads) * c();
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }

  void gradients(i64 first, i64 count, i64 last) {
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t, i = graph.row[at];
      if (at + ahead < last) prefetch(grad_out[graph.row[at + ahead]], heads * c());
      if (at + ahead < last) prefetch(packed + graph.row[at + ahead] * 4 * heads, 4 * heads);
      const A* own = packed + i * 4 * heads;
      const T* g = grad_out[i];
      const i64 y = t * heads;
      const T* given = edge_score ? edge_score[graph.edge[graph.csr[at]]] : nullptr;
      for (i64 x = 0; x < heads; ++x) ds[y + x] = dot<C>(v.data() + voff[x], g + x * c(), c());
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) z[y + x] = own[x] + b[x];
      if (given) axpy<0>(z.data() + y, A(1), given, heads);
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) {
        const A s = z[y + x] > 0 ? z[y + x] : slope * z[y + x];
        p[y + x] = s - own[heads + x];
      }
    }
#pragma omp simd
    for (i64 y = 0; y < count * heads; ++y) p[y] = exp_below(p[y]);
    for (i64 t = 0; t < count; ++t) {
      const A* own = packed + graph.row[first + t] * 4 * heads;
      const i64 y = t * heads;
      if (dropout) {
        fill(factor.data() + y, A(1), heads);
        dropout.apply(factor.data() + y, graph.csr[first + t], heads);
#pragma omp simd
        for (i64 x = 0; x < heads; ++x) ds[y + x] *= factor[y + x];
      }
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) {
        p[y + x] *= own[2 * heads + x];
        ds[y + x] = p[y + x] * (ds[y + x] - own[3 * heads + x]) * (z[y + x] > 0 ? A(1) : slope);
      }
    }
  }

  void edges(A* state, A*, i64 source, i64 first, i64 last) {
    load(b.data(), key_score[source], heads);
    load(v.data(), value[source], value_heads * c());
    A *grad_v = state, *grad_b = state + value_heads * c();
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      gradients(at, count, last);
      for (i64 t = 0; t < count; ++t) {
        const i64 y = t * heads;
        const T* g = grad_out[graph.row[at + t]];
        add(grad_b, ds.data() + y, heads);
        if (grad_edge) store(grad_edge + graph.edge[graph.csr[at + t]] * heads, ds.data() + y, heads);
        for (i64 x = 0; x < heads; ++x) {
          const A weight = dropout ? p[y + x] * factor[y + x] : p[y + x];
          axpy<C>(grad_v + voff[x], weight, g + x * c(), c());
        }
      }
    }
  }

  void end(const A* state, i64 source) const {
    store(grad_value + source * value_heads * c(), state, value_heads * c());
    store(grad_key + source * heads, state + value_heads * c(), heads);
  }
};

}  // namespace

void additive_forward(const AdditiveArgs& args) {
  dispatch(args.dtype, args.layout.wide, args.channels, [&]<class T, class I, int C>() {
    using A = acc_t<T>;
    const Score<T, I, C> score{Edges<I>(args.layout), args.query_score, args.key_score, args.value,
        args.edge_score, args.heads, args.channels, A(args.negative_slope),
        dropout_of(args.dropout), static_cast<A*>(args.out_plus), static_cast<A*>(args.mass_plus),
        {}, {}, {}};
    attend<Score<T, I, C>, T, I, C>(score, args.layout, args.value, args.out, args.row_max,
        args.row_sum, args.heads, args.value_heads, args.channels, args.dropout);
  });
}

void additive_backward(const AdditiveArgs& args) {
  dispatch(args.dtype, args.layout.wide, args.channels, [&]<class T, class I, int C>() {
    using A = acc_t<T>;
    std::vector<A> packed(args.layout.n * 4 * args.heads);
    destinations<T, C>(args, packed.data());
    const Edges<I> edges(args.layout);
    Backward<T, I, C> body{edges, args.key_score, args.value, args.edge_score, args.grad_out,
        packed.data(), static_cast<T*>(args.grad_key_score), static_cast<T*>(args.grad_value),
        static_cast<T*>(args.grad_edge_score), args.heads, args.value_heads, args.channels,
        A(args.negative_slope), dropout_of(args.dropout), {}, {}, {}, {}, {}, {}, {}};
    walk_rows(edges.colptr, edges.m, args.heads * (2 * args.channels + 16), body);
  });
}

}  // namespace gattn::GATTN_ISA
