// These kernels compute functions on edges: the softmax of scores, weighted sums (aggregate) and
// dot products. They are used by custom layers, and by all layers that return their attention
// weights. Edge tensors [e, h] are in the caller's order.
#include "attention.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define EDGE_SOFTMAX_FIELDS(FIELD)                              \
  FIELD(Dtype, dtype)                                           \
  GATTN_LAYOUT_FIELDS(FIELD)                                    \
  FIELD(i64, heads)                                             \
  FIELD(Rows, score) FIELD(void*, out)                          \
  FIELD(Rows, grad) FIELD(Rows, alpha) FIELD(void*, grad_score)
// clang-format on
GATTN_ARGS(EdgeSoftmaxArgs, EDGE_SOFTMAX_FIELDS);

// clang-format off
#define AGGREGATE_FIELDS(FIELD)                                                         \
  FIELD(Dtype, dtype)                                                                   \
  GATTN_LAYOUT_FIELDS(FIELD)                                                            \
  FIELD(i64, heads) FIELD(i64, value_heads) FIELD(i64, channels) FIELD(i64, transposed) \
  FIELD(Rows, weight) FIELD(Rows, value) FIELD(void*, out)
// clang-format on
GATTN_ARGS(AggregateArgs, AGGREGATE_FIELDS);

// clang-format off
#define EDGE_DOT_FIELDS(FIELD)                                 \
  FIELD(Dtype, dtype)                                          \
  GATTN_LAYOUT_FIELDS(FIELD)                                   \
  FIELD(i64, heads) FIELD(i64, key_heads) FIELD(i64, channels) \
  FIELD(Rows, query) FIELD(Rows, key) FIELD(void*, out)
// clang-format on
GATTN_ARGS(EdgeDotArgs, EDGE_DOT_FIELDS);

// This class is the body of a pass over the edges that writes numbers for each edge and has no
// state for a row. The class Work has the functions
//   void prepare();  void add_edges(row, first, last)
template <class T, class Work> struct EdgeWalk {
  using A = acc_t<T>;

  Work work;

  i64 state_size() const { return 0; }
  i64 shared_size() const { return 0; }
  void prepare() { work.prepare(); }
  void begin(A*) const {}
  void merge(A*, const A*) const {}
  void end(const A*, i64) const {}
  void add_edges(A*, A*, i64 row, i64 first, i64 last) { work.add_edges(row, first, last); }
};

template <class T, class I, class Work>
void walk_edges(const Edges<I>& edges, i64 work_per_edge, const Work& work) {
  walk_rows(edges.rowptr, edges.n, work_per_edge, EdgeWalk<T, Work>{work});
}

// This class reads the caller's index of each edge in CSR order. These indices are in random order,
// so the rows that they address are prefetched.
template <class I> struct CallerOrder {
  Indices<I> perm;
  i64 num_edges;

  i64 operator[](i64 at) const { return perm[at]; }
  template <int Use = 0, class T>
  void prefetch_ahead(i64 at, const Table<T>& table, i64 size) const {
    if (at + prefetch_distance < num_edges)
      prefetch<Use>(table[perm[at + prefetch_distance]], size);
  }
};

// This kernel body computes the softmax statistics of each row: the maximum of the scores and the
// inverse of the sum of their exponentials.
template <class T, class I> struct SoftmaxStatistics {
  using A = acc_t<T>;
  CallerOrder<I> perm;
  Table<const T> score;
  A* result;  // [n, 2, h]
  i64 heads;

  i64 state_size() const { return 2 * heads; }
  i64 shared_size() const { return 0; }
  void prepare() {}
  void begin(A* state) const { fill(state, -infinity<A>, heads), fill(state + heads, A(0), heads); }
  void softmax_merge(A* state, const A m, const A l, i64 x) const {
    const A larger = m > state[x] ? m : state[x];
    const A shift = safe_max(larger);
    state[heads + x] = state[heads + x] * exp_below(state[x] - shift) + l * exp_below(m - shift);
    state[x] = larger;
  }
  void add_edges(A* state, A*, i64, i64 first, i64 last) const {
    begin(state);
    for (i64 at = first; at < last; ++at) {
      perm.prefetch_ahead(at, score, heads);
      const T* s = score[perm[at]];
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) {
        // A comparison with NaN is false. Therefore a NaN score does not change the maximum, but
        // the sum becomes NaN.
        const A m = wide(s[x]);
        const A larger = m > state[x] ? m : state[x];
        const A shift = safe_max(larger);
        state[heads + x] = state[heads + x] * exp_below(state[x] - shift) + exp_below(m - shift);
        state[x] = larger;
      }
    }
  }
  void merge(A* into, const A* from) const {
    for (i64 x = 0; x < heads; ++x) softmax_merge(into, from[x], from[heads + x], x);
  }
  void end(const A* state, i64 row) const {
    for (i64 x = 0; x < heads; ++x) {
      result[row * 2 * heads + x] = safe_max(state[x]);
      result[row * 2 * heads + heads + x] = safe_inverse(state[heads + x]);
    }
  }
};

// This kernel body computes the softmax weight of each edge from the statistics of its row.
template <class T, class I> struct SoftmaxWeights {
  using A = acc_t<T>;
  CallerOrder<I> perm;
  Table<const T> score;
  const A* statistics;
  Table<T> alpha;
  i64 heads;

  void prepare() {}
  void add_edges(i64 row, i64 first, i64 last) const {
    const A *shift = statistics + row * 2 * heads, *inverse = shift + heads;
    for (i64 at = first; at < last; ++at) {
      perm.prefetch_ahead(at, score, heads), perm.template prefetch_ahead<1>(at, alpha, heads);
      const T* s = score[perm[at]];
      T* to = alpha[perm[at]];
#pragma omp simd
      for (i64 x = 0; x < heads; ++x)
        to[x] = narrow<T>(exp_below(wide(s[x]) - shift[x]) * inverse[x]);
    }
  }
};

// This kernel body computes the mean of the gradients of each row and head, weighted by alpha.
// Weights that were rounded to 16 bits do not sum exactly to one. The mean is therefore divided by
// the sum of alpha, because otherwise the gradients of a row would not sum to zero.
template <class T, class I> struct SoftmaxBackwardMeans {
  using A = acc_t<T>;
  CallerOrder<I> perm;
  Table<const T> alpha, grad;
  A* result;
  i64 heads;

  i64 state_size() const { return 2 * heads; }
  i64 shared_size() const { return 0; }
  void prepare() {}
  void begin(A* state) const { fill(state, A(0), 2 * heads); }
  void merge(A* into, const A* from) const { add(into, from, 2 * heads); }
  void end(const A* state, i64 row) const {
    for (i64 x = 0; x < heads; ++x)
      result[row * heads + x] = state[x] * safe_inverse(state[heads + x]);
  }
  void add_edges(A* state, A*, i64, i64 first, i64 last) const {
    begin(state);
    for (i64 at = first; at < last; ++at) {
      perm.prefetch_ahead(at, alpha, heads), perm.prefetch_ahead(at, grad, heads);
      const T *p = alpha[perm[at]], *g = grad[perm[at]];
#pragma omp simd
      for (i64 x = 0; x < heads; ++x) {
        state[x] += wide(p[x]) * wide(g[x]);
        state[heads + x] += wide(p[x]);
      }
    }
  }
};

// This kernel body computes the gradient of the score of each edge, alpha (grad - mean), from the
// mean of its row.
template <class T, class I> struct SoftmaxBackward {
  using A = acc_t<T>;
  CallerOrder<I> perm;
  Table<const T> alpha, grad;
  const A* means;
  Table<T> result;
  i64 heads;

  void prepare() {}
  void add_edges(i64 row, i64 first, i64 last) const {
    for (i64 at = first; at < last; ++at) {
      perm.prefetch_ahead(at, alpha, heads), perm.prefetch_ahead(at, grad, heads),
          perm.template prefetch_ahead<1>(at, result, heads);
      const T *p = alpha[perm[at]], *g = grad[perm[at]];
      T* to = result[perm[at]];
#pragma omp simd
      for (i64 x = 0; x < heads; ++x)
        to[x] = narrow<T>(wide(p[x]) * (wide(g[x]) - means[row * heads + x]));
    }
  }
};

// This struct is a layout in one direction, by destination or (if transposed) by source. It
// contains the offsets of the rows, the node at the other end of each edge, and the caller's index
// of each edge.
template <class I> struct Direction {
  Edges<I> edges;
  Indices<I> ptr, neighbour;
  bool transposed;

  Direction(const Edges<I>& edges, bool transposed)
      : edges(edges),
        ptr(transposed ? edges.colptr : edges.rowptr),
        neighbour(transposed ? edges.row : edges.col),
        transposed(transposed) {}
  i64 position(i64 at) const { return edges.perm[transposed ? edges.csr2csc[at] : at]; }
  // Prefetch the rows of both tables that will be read in prefetch_distance edges.
  template <class T> void prefetch_ahead(i64 at, const Table<T>& weight, i64 heads,
                                         const Table<T>& value, i64 size) const {
    if (at + prefetch_distance >= edges.e) return;
    prefetch_from(edges.is_large, value[neighbour[at + prefetch_distance]], size);
    prefetch(weight[position(at + prefetch_distance)], heads);
    if (transposed && at + 2 * prefetch_distance < edges.e)
      prefetch_index(edges.perm, edges.csr2csc[at + 2 * prefetch_distance]);
  }
};

// This kernel body computes the weighted sum of the values over the edges of each row.
template <class T, class I> struct Aggregate {
  using A = acc_t<T>;
  Direction<I> direction;
  Table<const T> weight, value;
  T* out;
  i64 heads, value_heads, channels;
  // Weights of a block of edges, [block, h], pointers to them, and rows of values.
  Buffer<A> weights;
  Buffer<const A*> weight_rows;
  Buffer<const T*> values;

  i64 state_size() const { return heads * channels; }
  i64 shared_size() const { return 0; }
  void prepare() {
    weights.resize(block * heads), weight_rows.resize(block), values.resize(block);
    point_to_rows<A>(weight_rows.data(), weights.data(), block, heads);
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 row) const { prefetch<1>(out + row * state_size(), state_size()); }
  void end(const A* state, i64 row) const { store(out + row * state_size(), state, state_size()); }
  void add_edges(A* state, A*, i64, i64 first, i64 last) const {
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) {
        direction.prefetch_ahead(at + t, weight, heads, value, value_heads * channels);
        values[t] = value[direction.neighbour[at + t]];
        const T* edge_weight = weight[direction.position(at + t)];
        for (i64 x = 0; x < heads; ++x) weights[t * heads + x] = wide(edge_weight[x]);
      }
      add_weighted_rows(state, at == first, count, heads, value_heads, channels, weight_rows.data(),
                        values.data());
    }
  }
};

// This kernel body computes the dot product of query and key for each edge and head.
template <class T, class I> struct EdgeDot {
  using A = acc_t<T>;
  CallerOrder<I> perm;
  Indices<I> col;
  Table<const T> query, key;
  Table<T> out;
  i64 heads, key_heads, channels;
  Buffer<A> q;

  void prepare() { q.resize(heads * channels); }
  void add_edges(i64 row, i64 first, i64 last) {
    load(q.data(), query[row], heads * channels);
    with_channels<T>(channels, [=, this]<int C>() {
      const i64 c = width<C>(channels);
      for (i64 at = first; at < last; ++at) {
        if (at + prefetch_distance < perm.num_edges)
          prefetch(key[col[at + prefetch_distance]], key_heads * c);
        perm.template prefetch_ahead<1>(at, out, heads);
        const T* k = key[col[at]];
        T* to = out[perm[at]];
        for (i64 x = 0; x < heads; ++x)
          to[x] = narrow<T>(dot<C>(q.data() + x * c, k + (x % key_heads) * c, c));
      }
    });
  }
};

void edge_softmax(const EdgeSoftmaxArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using I = AnyIndex;
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const CallerOrder<I> perm{edges.perm, edges.e};
    const i64 heads = args.heads;
    const auto statistics = scratch<A>(args.n * 2 * heads);
    const SoftmaxStatistics<T, I> first{
        .perm = perm, .score = args.score, .result = statistics.get(), .heads = heads};
    walk_rows(edges.rowptr, edges.n, heads * 16, first);
    const SoftmaxWeights<T, I> second{.perm = perm,
                                      .score = args.score,
                                      .statistics = statistics.get(),
                                      .alpha = {args.out, heads},
                                      .heads = heads};
    walk_edges<T>(edges, heads * 16, second);
  });
}

void edge_softmax_backward(const EdgeSoftmaxArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using I = AnyIndex;
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const CallerOrder<I> perm{edges.perm, edges.e};
    const i64 heads = args.heads;
    const auto means = scratch<A>(args.n * heads);
    const SoftmaxBackwardMeans<T, I> first{.perm = perm,
                                           .alpha = args.alpha,
                                           .grad = args.grad,
                                           .result = means.get(),
                                           .heads = heads};
    walk_rows(edges.rowptr, edges.n, heads * 2, first);
    const SoftmaxBackward<T, I> second{.perm = perm,
                                       .alpha = args.alpha,
                                       .grad = args.grad,
                                       .means = means.get(),
                                       .result = {args.grad_score, heads},
                                       .heads = heads};
    walk_edges<T>(edges, heads * 2, second);
  });
}

void aggregate(const AggregateArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    const Direction<I> direction(Edges<I>(args), args.transposed);
    const Aggregate<T, I> body{
        .direction = direction,
        .weight = args.weight,
        .value = args.value,
        .out = static_cast<T*>(args.out),
        .heads = args.heads,
        .value_heads = args.value_heads,
        .channels = args.channels,
    };
    walk_rows(direction.ptr, args.transposed ? args.m : args.n, args.heads * args.channels, body);
  });
}

void edge_dot(const EdgeDotArgs& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    const Edges<I> edges(args);
    const EdgeDot<T, I> work{
        .perm = {edges.perm, edges.e},
        .col = edges.col,
        .query = args.query,
        .key = args.key,
        .out = {args.out, args.heads},
        .heads = args.heads,
        .key_heads = args.key_heads,
        .channels = args.channels,
    };
    walk_edges<T>(edges, args.heads * args.channels, work);
  });
}

}  // namespace

std::span<const Kernel> edge_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(edge_softmax, EdgeSoftmaxArgs),
      GATTN_KERNEL(edge_softmax_backward, EdgeSoftmaxArgs),
      GATTN_KERNEL(aggregate, AggregateArgs),
      GATTN_KERNEL(edge_dot, EdgeDotArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
