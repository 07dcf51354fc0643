// MLP attention: s_ij = w . act(z_ij), z_ij = q_i + k_j + W a_ij, act LeakyReLU or tanh.
//
// Forward reads, per edge, a row of k, one of v (none where v is k) and d features. W a is formed
// a block of edges at a time, in cache.
//
// Backward is two walks. Over the edges into each destination,
//   ds_ij = alpha_ij (<dO_i, v_j> - <dO_i, O_i>),   dz_ij = ds_ij w act'(z_ij)
// gives dq_i = sum_j dz_ij, dw = sum ds act(z), dW = sum dz a^T and da = W^T dz; alpha (after
// dropout) and ds are handed over, [e, h] in CSR order. Over the edges out of each source, with z
// formed again, dk_j = sum_i dz_ij and dv_j = sum_i alpha_ij dO_i.
#include "attention.h"

namespace gattn::GATTN_ISA {

namespace {

enum class Activation : i64 { leaky_relu = 0, tanh = 1 };

#define MLP_FIELDS(FIELD)                                                                      \
  FIELD(Dtype, dtype)                                                                          \
  GATTN_LAYOUT_FIELDS(FIELD)                                                                   \
  GATTN_DROPOUT_FIELDS(FIELD)                                                                  \
  FIELD(i64, heads) FIELD(i64, channels) FIELD(i64, value_channels) FIELD(i64, features)       \
  FIELD(Activation, activation) FIELD(double, negative_slope)                                  \
  FIELD(Rows, query) FIELD(Rows, key) FIELD(Rows, value) FIELD(Rows, weight)                   \
  FIELD(Rows, edge_attr) FIELD(Rows, edge_proj)                                                \
  FIELD(void*, out) FIELD(void*, out_acc) FIELD(void*, row_max) FIELD(void*, row_sum)          \
  FIELD(Rows, grad_out)                                                                        \
  FIELD(void*, grad_query) FIELD(void*, grad_key) FIELD(void*, grad_value)                     \
  FIELD(void*, grad_weight) FIELD(void*, grad_edge_attr) FIELD(void*, grad_edge_proj)
GATTN_ARGS(MLPArgs, MLP_FIELDS);

// Columns of multiply_add as many as stay in registers for four rows at a time.
template <int broad, class A>
void multiply_add_columns(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                          const A* __restrict right, i64 rows, i64 depth, i64 width) {
  constexpr int tall = 4;
  i64 m = 0;
  for (; m + tall <= rows; m += tall) {
    A sum[tall][broad];
#pragma GCC unroll 4
    for (int u = 0; u < tall; ++u) load(sum[u], to + (m + u) * width, broad);
    for (i64 d = 0; d < depth; ++d) {
      const A *factor = left + m * row + d * step, *from = right + d * width;
#pragma GCC unroll 4
      for (int u = 0; u < tall; ++u) axpy<broad>(sum[u], factor[u * row], from, broad);
    }
#pragma GCC unroll 4
    for (int u = 0; u < tall; ++u) load(to + (m + u) * width, sum[u], broad);
  }
  for (; m < rows; ++m)
    for (i64 d = 0; d < depth; ++d)
      axpy<broad>(to + m * width, left[m * row + d * step], right + d * width, broad);
}

// to[m][f] += sum over k of left[m * row + k * step] right[k][f], f < width: a small product whose
// sums stay in registers.
template <class A>
void multiply_add(A* __restrict to, const A* __restrict left, i64 row, i64 step,
                  const A* __restrict right, i64 rows, i64 depth, i64 width) {
  constexpr int broad = sizeof(A) == 4 ? 64 : 32, slim = 16;
  i64 f = 0;
  for (; f + broad <= width; f += broad)
    multiply_add_columns<broad>(to + f, left, row, step, right + f, rows, depth, width);
  for (; f + slim <= width; f += slim)
    multiply_add_columns<slim>(to + f, left, row, step, right + f, rows, depth, width);
  if (f == width) return;
  for (i64 m = 0; m < rows; ++m)
    for (i64 d = 0; d < depth; ++d)
      axpy<0>(to + m * width + f, left[m * row + d * step], right + d * width + f, width - f);
}

struct LeakyReLU {
  template <class A> static A value(A z, A slope) { const A low = slope * z; return z > 0 ? z : low; }
  template <class A> static A slope(A z, A slope) { return z > 0 ? A(1) : slope; }
};
struct Tanh {
  template <class A> static A value(A z, A) { return tanh_of(z); }
  template <class A> static A slope(A z, A) { const A y = tanh_of(z); return 1 - y * y; }
};

// z and the score of blocks of edges, from either end: `own` is the row that stays, `other` the
// table that is gathered.
template <class T, class I, int C, class Act> struct Score {
  using A = acc_t<T>;
  static constexpr i64 values_ahead = ahead;

  Edges<I> graph;
  Table<const T> own, other, weight, edge_attr, edge_proj;
  i64 heads, lanes, channels, features;
  A slope;

  std::vector<A> stay, w, z, attr, projection;

  i64 c() const { return width<C>(channels); }
  i64 row_size() const { return heads * c(); }
  i64 extra_size() const { return 0; }
  void prepare() {
    stay.resize(row_size()), w.resize(row_size()), z.resize(block * row_size());
    for (i64 x = 0; x < heads; ++x) load(w.data() + x * c(), weight[x], c());
    if (!features) return;
    attr.resize(block * features), projection.resize(features * row_size());
    // W as [d, h, c], so that a row of it is as long as z.
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < c(); ++k)
        for (i64 d = 0; d < features; ++d)
          projection[d * row_size() + x * c() + k] = wide(edge_proj[x][k * features + d]);
  }
  void begin(i64 row) { load(stay.data(), own[row], row_size()); }

  // z of a block, from the rows gathered and the caller's edge positions.
  template <class Gather, class Position>
  void hidden(i64 count, const Gather& gathered, const Position& position) {
    for (i64 t = 0; t < count; ++t) {
      const T* row = gathered(t);
      A* to = z.data() + t * row_size();
      const A* mine = stay.data();
#pragma omp simd
      for (i64 k = 0; k < row_size(); ++k) to[k] = mine[k] + wide(row[k]);
    }
    if (!features) return;
    for (i64 t = 0; t < count; ++t) load(attr.data() + t * features, edge_attr[position(t)], features);
    multiply_add(z.data(), attr.data(), features, 1, projection.data(), count, features, row_size());
  }

  void scores(i64 first, i64 count, A* __restrict s) {
    hidden(count,
           [&](i64 t) {
             const i64 at = first + t;
             if (at + ahead < graph.e) {
               prefetch(other[graph.col[at + ahead]], row_size());
               if (features) prefetch(edge_attr[graph.perm[at + ahead]], features);
             }
             return other[graph.col[at]];
           },
           [&](i64 t) { return graph.perm[first + t]; });
    for (i64 t = 0; t < count; ++t)
      for (i64 x = 0; x < heads; ++x) {
        const A *from = z.data() + t * row_size() + x * c(), *to = w.data() + x * c();
        const A below = slope;
        s[t * lanes + x] =
            sum_of<C, A>(c(), [=](i64 k) { return to[k] * Act::value(from[k], below); });
      }
  }

  // dz of one edge and head into z, in place.
  void slopes(i64 t, i64 x, A change) {
    A* to = z.data() + t * row_size() + x * c();
    const A* v = w.data() + x * c();
    const A below = slope;
    const i64 n = c();
#pragma omp simd
    for (i64 k = 0; k < n; ++k) to[k] = change * v[k] * Act::slope(to[k], below);
  }

  void take(A*, A*, i64, i64, const A*, const A*, const T* const*, const i64*) {}
  void end(A*, const A*, const A*, const A*, i64) {}
};

template <class T, class I, int C, class Act>
Score<T, I, C, Act> score_of(const MLPArgs& args, const Rows& own, const Rows& other) {
  return {
      .graph = Edges<I>(args),
      .own = own,
      .other = other,
      .weight = args.weight,
      .edge_attr = args.edge_attr,
      .edge_proj = args.edge_proj,
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .channels = args.channels,
      .features = args.features,
      .slope = acc_t<T>(args.negative_slope),
  };
}

template <class T, class I, int C, class Act> struct Destination {
  using A = acc_t<T>;

  Score<T, I, C, Act> score;
  Table<const T> value, grad_out;
  const A* out;
  i64 value_channels;
  const A *row_max, *row_sum;
  T *grad_query, *grad_edge_attr;
  A *alpha, *grad_score;
  Mask<A> mask;

  std::vector<A> s, ds, g, d, largest, inverse, ga, transposed;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 state_size() const { return score.row_size(); }
  // Sums over all rows: dw, then dW as [d, h c].
  i64 shared_size() const { return score.row_size() * (1 + score.features); }
  void prepare() {
    score.prepare(), mask.prepare(block);
    s.resize(block * lanes()), ds.resize(block * lanes()), g.resize(heads() * cv());
    d.resize(lanes()), largest.resize(lanes()), inverse.resize(lanes());
    if (!grad_edge_attr) return;
    const i64 size = score.row_size(), n = score.features;
    ga.resize(block * n), transposed.resize(size * n);
    for (i64 k = 0; k < n; ++k)
      for (i64 y = 0; y < size; ++y) transposed[y * n + k] = score.projection[k * size + y];
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void end(const A* state, i64 row) const { store(grad_query + row * state_size(), state, state_size()); }

  void edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    begin_row(row);
    const i64 size = score.row_size(), features = score.features;
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      gradients(at, count);
      for (i64 t = 0; t < count; ++t) {
        const A* change = ds.data() + t * lanes();
        std::copy_n(s.data() + t * lanes(), heads(), alpha + (at + t) * heads());
        std::copy_n(change, heads(), grad_score + (at + t) * heads());
        weight_gradient(shared, t, change);
        for (i64 x = 0; x < heads(); ++x) score.slopes(t, x, change[x]);
        add(state, score.z.data() + t * size, size);
      }
      if (grad_edge_attr) edge_gradients(at, count);
      if (features)
        multiply_add(shared + size, score.attr.data(), 1, features, score.z.data(), features, count, size);
    }
  }

  void begin_row(i64 row) {
    score.begin(row);
    load(g.data(), grad_out[row], heads() * cv());
    for (i64 x = 0; x < heads(); ++x) {
      d[x] = dot<C>(g.data() + x * cv(), out + (row * heads() + x) * cv(), cv());
      largest[x] = row_max[row * heads() + x];
      inverse[x] = Softmax::inverse(row_sum[row * heads() + x]);
    }
  }

  // alpha after dropout into s, the score's gradient into ds.
  void gradients(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    A *flat = s.data(), *products = ds.data();
    const A *shift = largest.data(), *inv = inverse.data(), *own = d.data();
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      if (at + ahead < graph.e) {
        prefetch(value[graph.col[at + ahead]], heads() * cv());
        if (grad_edge_attr)
          prefetch<1>(grad_edge_attr + graph.perm[at + ahead] * score.features, score.features);
      }
      const T* v = value[graph.col[at]];
      A *inner = ds.data() + t * lanes(), *exponent = flat + t * lanes();
      for (i64 x = 0; x < heads(); ++x) inner[x] = dot<C>(g.data() + x * cv(), v + x * cv(), cv());
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= shift[x]; });
    }
    for_lanes(count * lanes(), [=](i64 y) { flat[y] = exp_below(flat[y]); });
    const A* kept = mask ? mask.draw(count, [=](i64 t) { return first + t; }) : nullptr;
    if (kept) for_lanes(count * lanes(), [=](i64 y) { products[y] *= kept[y]; });
    for (i64 t = 0; t < count; ++t) {
      A *p = flat + t * lanes(), *change = ds.data() + t * lanes();
      for_lanes(lanes(), [=](i64 x) {
        p[x] *= inv[x];
        change[x] = p[x] * (change[x] - own[x]);
      });
    }
    if (kept) for_lanes(count * lanes(), [=](i64 y) { flat[y] *= kept[y]; });
  }

  void weight_gradient(A* to, i64 t, const A* change) {
    const A* z = score.z.data() + t * score.row_size();
    const A below = score.slope;
    const i64 n = c();
    for (i64 x = 0; x < heads(); ++x) {
      const A factor = change[x];
#pragma omp simd
      for (i64 k = 0; k < n; ++k) to[x * n + k] += factor * Act::value(z[x * n + k], below);
    }
  }

  // W^T dz of a block.
  void edge_gradients(i64 first, i64 count) {
    const i64 size = score.row_size(), n = score.features;
    fill(ga.data(), A(0), count * n);
    multiply_add(ga.data(), score.z.data(), size, 1, transposed.data(), count, size, n);
    for (i64 t = 0; t < count; ++t)
      store(grad_edge_attr + score.graph.perm[first + t] * n, ga.data() + t * n, n);
  }
};

template <class T, class I, int C, class Act> struct Source {
  using A = acc_t<T>;

  Score<T, I, C, Act> score;
  Table<const T> grad_out;
  i64 value_channels;
  const A *alpha, *grad_score;
  T *grad_key, *grad_value;  // grad_value is null where value is key: dv joins dk

  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 key_size() const { return score.row_size(); }
  i64 value_size() const { return score.heads * cv(); }
  i64 state_size() const { return key_size() + (grad_value ? value_size() : 0); }
  i64 shared_size() const { return 0; }
  void prepare() { score.prepare(); }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }

  void edges(A* state, A*, i64 source, i64 first, i64 last) {
    const Edges<I>& graph = score.graph;
    A *grad_k = state, *grad_v = grad_value ? state + key_size() : state;
    score.begin(source);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.hidden(count,
                   [&](i64 t) {
                     ask(at + t + ahead);
                     return score.other[graph.row[at + t]];
                   },
                   [&](i64 t) { return graph.perm[graph.csr2csc[at + t]]; });
      for (i64 t = 0; t < count; ++t) {
        const i64 y = graph.csr2csc[at + t] * score.heads;
        const T* g = grad_out[graph.row[at + t]];
        for (i64 x = 0; x < score.heads; ++x) {
          score.slopes(t, x, grad_score[y + x]);
          add(grad_k + x * c(), score.z.data() + t * key_size() + x * c(), c());
          axpy<C>(grad_v + x * cv(), alpha[y + x], g + x * cv(), cv());
        }
      }
    }
  }

  void ask(i64 at) const {
    const Edges<I>& graph = score.graph;
    if (at >= graph.e) return;
    if (score.features) {
      prefetch(score.edge_attr[graph.perm[graph.csr2csc[at]]], score.features);
      if (at + ahead < graph.e) prefetch(graph.perm + graph.csr2csc[at + ahead], 1);
    }
    prefetch(score.other[graph.row[at]], key_size());
    prefetch(grad_out[graph.row[at]], value_size());
    prefetch(alpha + graph.csr2csc[at] * score.heads, score.heads);
    prefetch(grad_score + graph.csr2csc[at] * score.heads, score.heads);
  }

  void end(const A* state, i64 source) const {
    store(grad_key + source * key_size(), state, key_size());
    if (grad_value) store(grad_value + source * value_size(), state + key_size(), value_size());
  }
};

// Scores alone, at the caller's positions.
template <class T, class I, int C, class Act> struct ScoreOnly {
  using A = acc_t<T>;

  Score<T, I, C, Act> score;
  T* out;  // [e, h]
  std::vector<A> s;

  i64 state_size() const { return 0; }
  i64 shared_size() const { return 0; }
  void prepare() { score.prepare(), s.resize(block * score.lanes); }
  void begin(A*) const {}
  void merge(A*, const A*) const {}
  void end(const A*, i64) const {}
  void edges(A*, A*, i64 row, i64 first, i64 last) {
    score.begin(row);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      for (i64 t = 0; t < count; ++t)
        store(out + score.graph.perm[at + t] * score.heads, s.data() + t * score.lanes, score.heads);
    }
  }
};

// Call function.template operator()<T, I, C, Act>(); channel counts that are compiled in serve key
// and value alike.
template <class Function> void specialise(const MLPArgs& args, const Function& function) {
  const i64 channels = args.channels == args.value_channels ? args.channels : 0;
  dispatch(args.dtype, args.is_int64, channels, [&]<class T, class I, int C>() {
    // tanh costs more than what fixed channels would save
    if (args.activation == Activation::tanh)
      return function.template operator()<T, I, 0, Tanh>();
    function.template operator()<T, I, C, LeakyReLU>();
  });
}

Rows value_of(const MLPArgs& args) { return args.value.data ? args.value : args.key; }

i64 work_per_edge(const MLPArgs& args) {
  return args.heads * (args.channels * (2 + args.features) + args.value_channels + 8);
}

// The sum of dW, [d, h c], as the parameter stands: [h, c, d].
template <class T, class A> void store_transposed(T* to, const A* from, i64 features, i64 size) {
  for (i64 y = 0; y < size; ++y)
    for (i64 k = 0; k < features; ++k) to[y * features + k] = narrow<T>(from[k * size + y]);
}

void mlp_forward(const MLPArgs& args) {
  specialise(args, [&]<class T, class I, int C, class Act>() {
    attend<T, I, C>(score_of<T, I, C, Act>(args, args.query, args.key), args, value_of(args),
                    args.heads, args.value_channels);
  });
}

void mlp_backward(const MLPArgs& args) {
  specialise(args, [&]<class T, class I, int C, class Act>() {
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const i64 heads = args.heads, size = heads * args.channels, features = args.features;
    const auto alpha = scratch<A>(edges.e * heads), grad_score = scratch<A>(edges.e * heads);
    std::vector<A> total(size * (1 + features));
    const Destination<T, I, C, Act> destinations{
        .score = score_of<T, I, C, Act>(args, args.query, args.key),
        .value = value_of(args),
        .grad_out = args.grad_out,
        .out = static_cast<const A*>(args.out_acc),
        .value_channels = args.value_channels,
        .row_max = static_cast<const A*>(args.row_max),
        .row_sum = static_cast<const A*>(args.row_sum),
        .grad_query = static_cast<T*>(args.grad_query),
        .grad_edge_attr = static_cast<T*>(args.grad_edge_attr),
        .alpha = alpha.get(),
        .grad_score = grad_score.get(),
        .mask = mask_of<A>(args.seed, args.dropout, heads),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work_per_edge(args), destinations, total.data());
    store(static_cast<T*>(args.grad_weight), total.data(), size);
    store_transposed(static_cast<T*>(args.grad_edge_proj), total.data() + size, features, size);
    const Source<T, I, C, Act> sources{
        .score = score_of<T, I, C, Act>(args, args.key, args.query),
        .grad_out = args.grad_out,
        .value_channels = args.value_channels,
        .alpha = alpha.get(),
        .grad_score = grad_score.get(),
        .grad_key = static_cast<T*>(args.grad_key),
        .grad_value = static_cast<T*>(args.grad_value),
    };
    walk_rows(edges.colptr, edges.m, work_per_edge(args), sources);
  });
}

void mlp_score(const MLPArgs& args) {
  specialise(args, [&]<class T, class I, int C, class Act>() {
    const Edges<I> edges(args);
    const ScoreOnly<T, I, C, Act> body{
        .score = score_of<T, I, C, Act>(args, args.query, args.key),
        .out = static_cast<T*>(args.out),
    };
    walk_rows(edges.rowptr, edges.n, work_per_edge(args), body);
  });
}

}  // namespace

std::span<const Kernel> mlp_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(mlp_forward, MLPArgs),
      GATTN_KERNEL(mlp_backward, MLPArgs),
      GATTN_KERNEL(mlp_score, MLPArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
