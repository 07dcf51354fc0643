// These kernels compute attention with the score of a one-layer perceptron, for GATv2Conv
// (LeakyReLU) and Bahdanau's additive score (tanh):
//
//   s_ij = w . act(z_ij), z_ij = q_i + k_j + W a_ij
//
// The file edge_terms.h applies the bias, weight and dropout of the edges. Below, r_ij is the
// product of dropout factor and edge weight, by which alpha_ij is multiplied. For each edge,
// forward reads a row of k, a row of v (unless v is k) and d edge features. The products W a are
// computed for a block of edges at a time, so that they stay in the cache.
//
// Backward consists of two passes over the edges. The pass by destination computes
//   ds_ij = alpha_ij (r_ij <dO_i, v_j> - D_i), D_i = <dO_i, O_i>,   dz_ij = ds_ij w act'(z_ij)
//   dq_i = sum_j dz_ij, dw = sum ds act(z), dW = sum dz a^T, da = W^T dz
// For the second pass, it writes r alpha and ds, [e, h] in CSR order, and (for LeakyReLU) the signs
// of z, one bit for each channel. The pass by source computes dk_j = sum_i dz_ij and dv_j = sum_i
// r_ij alpha_ij dO_i; for tanh, it must compute z again. The derivation is in docs/kernels.md.
#include "attention.h"
#include "multiply_add.h"

namespace gattn::GATTN_ISA {

namespace {

enum class Activation : i64 { leaky_relu = 0, tanh = 1 };

// clang-format off
#define GATV2_FIELDS(FIELD)                                                                \
  FIELD(Dtype, dtype)                                                                    \
  GATTN_LAYOUT_FIELDS(FIELD)                                                             \
  GATTN_TERMS_FIELDS(FIELD)                                                              \
  FIELD(i64, heads) FIELD(i64, channels) FIELD(i64, value_channels) FIELD(i64, features) \
  FIELD(Activation, activation) FIELD(double, negative_slope)                            \
  FIELD(Rows, query) FIELD(Rows, key) FIELD(Rows, value) FIELD(Rows, weight)             \
  FIELD(Rows, edge_attr) FIELD(Rows, edge_proj)                                          \
  FIELD(void*, out) FIELD(void*, out_acc) FIELD(void*, row_max) FIELD(void*, row_sum)    \
  FIELD(Rows, grad_out)                                                                  \
  FIELD(void*, grad_query) FIELD(void*, grad_key) FIELD(void*, grad_value)               \
  FIELD(void*, grad_weight) FIELD(void*, grad_edge_attr) FIELD(void*, grad_edge_proj)
// clang-format on
GATTN_ARGS(GATv2Args, GATV2_FIELDS);

// Compute LeakyReLU of a number or of a vector register.
template <class Z, class A> inline Z leaky_relu(Z z, A negative_slope) {
  const Z low = negative_slope * z;
  return z > 0 ? z : low;
}

// The signs of z of an edge are stored as bits. In each group of 128 channels, bit v of byte i
// belongs to channel 16 v + i and is set if z is positive. Therefore, bit v of 16 bytes is the mask
// of 16 adjacent channels.
constexpr i64 sign_lanes = 16, signs_together = 8 * sign_lanes;

inline i64 sign_bytes(i64 channels) {
  return (channels + signs_together - 1) / signs_together * sign_lanes;
}

// For each bit v, call function(v, k, n), where k is the first of the n channels of the bit.
template <class Function>
GATTN_INLINE void for_signs(i64 first, i64 channels, const Function& function) {
  if (first + signs_together <= channels) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v)
      function(v, first + v * sign_lanes, std::integral_constant<i64, sign_lanes>());
    return;
  }
  for (int v = 0; first < channels; ++v, first += sign_lanes)
    function(v, first, std::min(sign_lanes, channels - first));
}

// Write the bit masks of the signs of z, where z has shape [channels].
template <class A> [[gnu::noinline]] void pack_signs(std::uint8_t* to, const A* z, i64 channels) {
  for (i64 first = 0; first < channels; first += signs_together, to += sign_lanes) {
    int bits[sign_lanes] = {};
    for_signs(first, channels, [&](int v, i64 at, auto n) {
#pragma omp simd
      for (i64 i = 0; i < n; ++i) bits[i] |= z[at + i] > 0 ? 1 << v : 0;
    });
#pragma omp simd
    for (i64 i = 0; i < sign_lanes; ++i) to[i] = std::uint8_t(bits[i]);
  }
}

// Add the gradient to `to`. The gradient is multiplied by the slope of LeakyReLU in channels in
// which z is not positive.
template <class A> [[gnu::noinline]] void add_signed(A* __restrict to, const A* __restrict grad,
                                                     const std::uint8_t* sign, A negative_slope,
                                                     i64 channels) {
  for (i64 first = 0; first < channels; first += signs_together, sign += sign_lanes) {
    int bits[sign_lanes];
#pragma omp simd
    for (i64 i = 0; i < sign_lanes; ++i) bits[i] = sign[i];
    for_signs(first, channels, [&](int v, i64 at, auto n) {
#pragma omp simd
      for (i64 i = 0; i < n; ++i) {
        const A whole = grad[at + i], scaled = negative_slope * whole;
        to[at + i] += bits[i] & 1 << v ? whole : scaled;
      }
    });
  }
}

// The functions with tanh have one loop for any number of channels. Compiling them for fixed
// numbers would save little time, because tanh takes most of the time.

// Compute the score <w_x, tanh(z_x)> of each edge of a block and each head x. Shapes: score [count,
// lanes], z [count, h, c].
template <class A> [[gnu::noinline]] void tanh_scores(A* score, const A* w, const A* z, i64 count,
                                                      i64 heads, i64 lanes, i64 channels) {
  for (i64 t = 0; t < count; ++t)
    for (i64 x = 0; x < heads; ++x) {
      const A *from = z + (t * heads + x) * channels, *to = w + x * channels;
      score[t * lanes + x] =
          sum_of<0, A>(channels, [=](i64 k) { return to[k] * tanh_of(from[k]); });
    }
}

// Replace z_x of an edge by its gradient, grad_x w_x tanh'(z_x), for each head x.
template <class A>
[[gnu::noinline]] void tanh_gradient(A* z, const A* w, const A* grad, i64 heads, i64 channels) {
  for (i64 x = 0; x < heads; ++x) {
    A* to = z + x * channels;
    const A *v = w + x * channels, grad_score = grad[x];
#pragma omp simd
    for (i64 k = 0; k < channels; ++k) {
      const A y = tanh_of(to[k]);
      to[k] = grad_score * v[k] * (1 - y * y);
    }
  }
}

// Add grad_x tanh(z_x) of an edge to to_x, for each head x.
template <class A>
[[gnu::noinline]] void add_tanh(A* to, const A* grad, const A* z, i64 heads, i64 channels) {
  for (i64 x = 0; x < heads; ++x) {
    const A factor = grad[x];
#pragma omp simd
    for (i64 k = 0; k < channels; ++k)
      to[x * channels + k] += factor * tanh_of(z[x * channels + k]);
  }
}

// This class computes z and the scores of blocks of edges, in a pass by destination or by source.
// `row_table` contains the features of the nodes whose edges the pass processes together. `other`
// contains the features of the nodes at the other end of the edges, which are gathered.
template <class T, class I, int C> struct GATv2Score {
  using A = acc_t<T>;
  static constexpr i64 value_prefetch_distance = prefetch_distance;

  Edges<I> graph;
  Table<const T> row_table, other, weight, edge_attr, edge_proj;
  i64 heads, lanes, channels, features;
  // If this is true, the activation is tanh. It can only be true if C = 0.
  bool tanh;
  A negative_slope;

  Buffer<A> row_buffer, w, z, attr, projection;
  const A* current_row = nullptr;
  // Number of edges of earlier blocks whose products for dW and da are not computed yet.
  i64 pending = 0;

  i64 c() const { return width<C>(channels); }
  bool has_tanh() const { return C == 0 && tanh; }
  i64 row_size() const { return heads * c(); }
  i64 extra_size() const { return 0; }
  bool has_extra(i64) const { return false; }
  void prefetch_row(i64 row) const { prefetch(row_table[row], row_size()); }
  A* z_of(i64 t) const { return z.data() + (pending + t) * row_size(); }
  A* attr_of(i64 t) const { return attr.data() + (pending + t) * features; }
  void prepare(i64 capacity = block) {
    row_buffer.resize(row_size()), w.resize(row_size()), z.resize(capacity * row_size());
    for (i64 x = 0; x < heads; ++x) load(w.data() + x * c(), weight[x], c());
    if (!features) return;
    attr.resize(capacity * features), projection.resize(features * row_size());
    // W is stored with shape [d, h, c], so that its rows have the shape of z.
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < c(); ++k)
        for (i64 d = 0; d < features; ++d)
          projection[d * row_size() + x * c() + k] = wide(edge_proj[x][k * features + d]);
  }
  void begin(i64 row) { current_row = widened(row_buffer.data(), row_table[row], row_size()); }

  // Compute the inputs z_ij of the activation for a block of edges. The function gathered(t)
  // returns the features of the node at the other end of edge t, and position(t) returns the index
  // of edge t in the caller's order.
  template <class Gather, class Position>
  void hidden(i64 count, const Gather& gathered, const Position& position) {
    for (i64 t = 0; t < count; ++t) {
      const T* other_row = gathered(t);
      A* to = z_of(t);
      const A* row = current_row;
#pragma omp simd
      for (i64 k = 0; k < row_size(); ++k) to[k] = row[k] + wide(other_row[k]);
    }
    if (!features) return;
    for (i64 t = 0; t < count; ++t) load(attr_of(t), edge_attr[position(t)], features);
    multiply_add(z_of(0), attr_of(0), features, 1, projection.data(), count, features, row_size(),
                 row_size());
  }

  // Compute the scores of a block of edges. Forward, backward and gatv2_score call this function.
  [[gnu::noinline]] void scores(i64 first, i64 count, A* __restrict s) {
    hidden(
        count,
        [&](i64 t) {
          const i64 at = first + t;
          if (at + prefetch_distance < graph.e) {
            prefetch(other[graph.col[at + prefetch_distance]], row_size());
            if (features) prefetch(edge_attr[graph.perm[at + prefetch_distance]], features);
          }
          return other[graph.col[at]];
        },
        [&](i64 t) { return graph.perm[first + t]; });
    if (has_tanh()) return tanh_scores(s, w.data(), z_of(0), count, heads, lanes, c());
    const A* v = w.data();
    const A slope = negative_slope;
    const i64 n = c();
    for (i64 t = 0; t < count; ++t) {
      const A* from = z_of(t);
      sums_of_heads<C, A>(s + t * lanes, heads, n, [=](auto at) {
        return at.of(v, at.head * n) * leaky_relu(at.of(from, at.head * n), slope);
      });
    }
  }

  // Replace z of edge t of the block by its gradient dz, given the gradient of the score, [h].
  void hidden_gradient(i64 t, const A* grad) {
    A* edge_z = z_of(t);
    if (has_tanh()) return tanh_gradient(edge_z, w.data(), grad, heads, c());
    const A slope = negative_slope;
    const i64 n = c();
    for (i64 x = 0; x < heads; ++x) {
      A* to = edge_z + x * n;
      const A *v = w.data() + x * n, grad_score = grad[x];
#pragma omp simd
      for (i64 k = 0; k < n; ++k) to[k] = grad_score * v[k] * (to[k] > 0 ? A(1) : slope);
    }
  }

  // Write the product grad_x w_x of one edge, [h, c], to the first row of z.
  void weighted_gradient(const A* grad) {
    const i64 n = c();
    for (i64 x = 0; x < heads; ++x) {
      A* to = z.data() + x * n;
      const A *v = w.data() + x * n, grad_score = grad[x];
      for_channels<C>(n, [=](i64 k) { to[k] = grad_score * v[k]; });
    }
  }

  void accumulate_extra(A*, A*, i64, i64, const A*, const A*, const T* const*, const i64*) {}
  void end(A*, const A*, const A*, const A*, i64) {}
};

template <class T, class I, int C>
GATv2Score<T, I, C> score_of(const GATv2Args& args, const Rows& row_table, const Rows& other) {
  return {
      .graph = Edges<I>(args),
      .row_table = row_table,
      .other = other,
      .weight = args.weight,
      .edge_attr = args.edge_attr,
      .edge_proj = args.edge_proj,
      .heads = args.heads,
      .lanes = lanes_of(args.heads),
      .channels = args.channels,
      .features = args.features,
      .tanh = args.activation == Activation::tanh,
      .negative_slope = acc_t<T>(args.negative_slope),
  };
}

// This class is the first of the two passes of the backward kernel. For each destination, it
// processes the edges into the destination.
template <class T, class I, int C> struct GATv2BackwardByDestination {
  using A = acc_t<T>;

  GATv2Score<T, I, C> score;
  Table<const T> value, grad_out;
  const A* out;
  i64 value_channels;
  const A *row_max, *row_sum;
  T *grad_query, *grad_edge_attr;
  EdgeValues<A> edge_values;
  // The pointer is null if the activation is tanh.
  std::uint8_t* signs;
  EdgeTerms<T, I> terms;

  Buffer<A> s, ds, g, delta, shift, inverse, grad_attr, transposed;
  const A* grad_row = nullptr;
  // Indices, in the caller's order, of the edges whose products are not computed yet.
  Buffer<i64> pending_edges;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 state_size() const { return score.row_size(); }
  // Sums over all rows: dw, followed by dW with shape [d, h c].
  i64 shared_size() const { return score.row_size() * (1 + score.features); }
  void prepare() {
    constexpr i64 capacity = max_pending + block;
    score.prepare(capacity), terms.prepare();
    s.resize(block * lanes()), ds.resize(block * lanes()), g.resize(heads() * cv());
    delta.resize(lanes()), shift.resize(lanes()), inverse.resize(lanes());
    if (!grad_edge_attr) return;
    const i64 size = score.row_size(), n = score.features;
    pending_edges.resize(capacity), grad_attr.resize(capacity * n), transposed.resize(size * n);
    for (i64 k = 0; k < n; ++k)
      for (i64 y = 0; y < size; ++y) transposed[y * n + k] = score.projection[k * size + y];
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 row) const {
    score.prefetch_row(row);
    prefetch(grad_out[row], heads() * cv());
    prefetch(out + row * heads() * cv(), heads() * cv());
    prefetch<1>(grad_query + row * state_size(), state_size());
  }
  void set_end(i64 last) { terms.set_end(last); }
  void finish(A* shared) {
    flush_products(shared);
    terms.finish();
  }
  void end(const A* state, i64 row) const {
    store(grad_query + row * state_size(), state, state_size());
  }

  void add_edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    begin_row(row), begin(state);
    const i64 size = score.row_size();
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      if (terms.bias) terms.add_bias(s.data(), at, count);
      gradients(at, count);
      for (i64 t = 0; t < count; ++t) {
        const A* grad_score = ds.data() + t * lanes();
        edge_values.store(at + t, s.data() + t * lanes(), grad_score);
        weight_gradient(shared, t, grad_score);
        if (signs) pack_signs(signs + (at + t) * sign_bytes(size), score.z_of(t), size);
        score.hidden_gradient(t, grad_score);
        add(state, score.z_of(t), size);
      }
      if (score.features) append_pending(shared, at, count);
    }
  }

  // Store dz of a block until the products for dW and da are computed. They are computed for
  // several short rows together.
  void append_pending(A* shared, i64 first, i64 count) {
    if (grad_edge_attr)
      for (i64 t = 0; t < count; ++t)
        pending_edges[score.pending + t] = score.graph.perm[first + t];
    score.pending += count;
    if (score.pending >= max_pending) flush_products(shared);
  }

  void flush_products(A* shared) {
    const i64 size = score.row_size(), n = score.features, count = score.pending;
    if (grad_edge_attr) edge_gradients(count);
    multiply_add(shared + size, score.attr.data(), 1, n, score.z.data(), n, count, size, size);
    score.pending = 0;
  }

  void begin_row(i64 row) {
    score.begin(row);
    grad_row = widened(g.data(), grad_out[row], heads() * cv());
    head_dots<C>(delta.data(), grad_row, out + row * heads() * cv(), heads(), cv());
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads(), lanes());
  }

  // For each edge of a block, write the product of alpha, dropout factor and edge weight to s, and
  // the gradient of the score to ds.
  void gradients(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    A *alphas = s.data(), *products = ds.data();
    const A *row_shift = shift.data(), *inv = inverse.data(), *row_delta = delta.data();
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      if (at + prefetch_distance < graph.e) {
        prefetch(value[graph.col[at + prefetch_distance]], heads() * cv());
        if (grad_edge_attr)
          prefetch<1>(grad_edge_attr + graph.perm[at + prefetch_distance] * score.features,
                      score.features);
      }
      const T* v = value[graph.col[at]];
      A *product = ds.data() + t * lanes(), *exponent = alphas + t * lanes();
      head_dots<C>(product, grad_row, v, heads(), cv());
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= row_shift[x]; });
    }
    exponentials(alphas, count * lanes());
    if (terms.has_factors()) terms.scale_products(products, first, count);
    for (i64 t = 0; t < count; ++t) {
      A *p = alphas + t * lanes(), *grad_score = ds.data() + t * lanes();
      for_lanes(lanes(), [=](i64 x) {
        p[x] *= inv[x];
        grad_score[x] = p[x] * (grad_score[x] - row_delta[x]);
      });
    }
    if (terms.bias.gradient) terms.store_bias_gradients(products, first, count);
    if (terms.has_factors()) terms.scale_weights(alphas, first, count);
  }

  // Add the term ds act(z) of edge t of the block to the gradient dw.
  void weight_gradient(A* to, i64 t, const A* grad_score) {
    const A* z = score.z_of(t);
    const A slope = score.negative_slope;
    const i64 n = c();
    if (score.has_tanh()) return add_tanh(to, grad_score, z, heads(), n);
    for (i64 x = 0; x < heads(); ++x) {
      const A factor = grad_score[x];
#pragma omp simd
      for (i64 k = 0; k < n; ++k) to[x * n + k] += factor * leaky_relu(z[x * n + k], slope);
    }
  }

  // Compute the gradient da = W^T dz of the edges whose products are not computed yet.
  void edge_gradients(i64 count) {
    const i64 size = score.row_size(), n = score.features;
    fill(grad_attr.data(), A(0), count * n);
    multiply_add(grad_attr.data(), score.z.data(), size, 1, transposed.data(), count, size, n, n);
    for (i64 t = 0; t < count; ++t)
      store(grad_edge_attr + pending_edges[t] * n, grad_attr.data() + t * n, n);
  }
};

// This class is the second of the two passes of the backward kernel. For each source, it processes
// the edges out of the source.
template <class T, class I, int C> struct GATv2BackwardBySource {
  using A = acc_t<T>;

  GATv2Score<T, I, C> score;
  Table<const T> grad_out;
  i64 value_channels;
  EdgeValues<A> edge_values;
  // The pointer is null if the activation is tanh. In this case, z is computed again.
  const std::uint8_t* signs;
  // If value is key, grad_value is null, and dv is added to dk.
  T *grad_key, *grad_value;

  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 key_size() const { return score.row_size(); }
  i64 value_size() const { return score.heads * cv(); }
  i64 state_size() const { return key_size() + (grad_value ? value_size() : 0); }
  i64 shared_size() const { return 0; }
  void prepare() { score.prepare(); }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 source) const {
    if (!signs) score.prefetch_row(source);
    prefetch<1>(grad_key + source * key_size(), key_size());
    if (grad_value) prefetch<1>(grad_value + source * value_size(), value_size());
  }

  void add_edges(A* state, A*, i64 source, i64 first, i64 last) {
    const Edges<I>& graph = score.graph;
    A *grad_k = state, *grad_v = grad_value ? state + key_size() : state;
    score.begin(source), begin(state);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) prefetch_edge(at + t + prefetch_distance);
      if (!signs) compute_hidden(at, count);
      for (i64 t = 0; t < count; ++t) {
        const i64 position = graph.csr2csc[at + t];
        const A* grad_score = edge_values.grad_score(position);
        if (signs) {
          score.weighted_gradient(grad_score);
          add_signed(grad_k, score.z_of(0), signs + position * sign_bytes(key_size()),
                     score.negative_slope, key_size());
        } else {
          score.hidden_gradient(t, grad_score);
          add(grad_k, score.z_of(t), key_size());
        }
      }
      add_rows<C, T>(
          grad_v, false, count, score.heads, cv(),
          [=, this](i64 t) { return edge_values.weight(score.graph.csr2csc[at + t]); },
          [=, this](i64 t) { return grad_out[score.graph.row[at + t]]; },
          [this](i64 x) { return x * cv(); });
    }
  }

  [[gnu::noinline]] void compute_hidden(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    score.hidden(
        count, [&](i64 t) { return score.other[graph.row[first + t]]; },
        [&](i64 t) { return graph.perm[graph.csr2csc[first + t]]; });
  }

  void prefetch_edge(i64 at) const {
    const Edges<I>& graph = score.graph;
    if (at >= graph.e) return;
    if (signs) {
      prefetch(signs + graph.csr2csc[at] * sign_bytes(key_size()), sign_bytes(key_size()));
    } else {
      if (score.features) {
        prefetch(score.edge_attr[graph.perm[graph.csr2csc[at]]], score.features);
        if (at + prefetch_distance < graph.e)
          prefetch_index(graph.perm, graph.csr2csc[at + prefetch_distance]);
      }
      prefetch(score.other[graph.row[at]], key_size());
    }
    prefetch(grad_out[graph.row[at]], value_size());
    edge_values.prefetch_edge(graph.csr2csc[at]);
  }

  void end(const A* state, i64 source) const {
    store(grad_key + source * key_size(), state, key_size());
    if (grad_value) store(grad_value + source * value_size(), state + key_size(), value_size());
  }
};

// This kernel body computes the scores of all edges and heads, in the caller's order.
template <class T, class I, int C> struct GATv2ScoreWalk {
  using A = acc_t<T>;

  GATv2Score<T, I, C> score;
  T* out;  // [e, h]
  Buffer<A> s;

  i64 state_size() const { return 0; }
  i64 shared_size() const { return 0; }
  void prepare() { score.prepare(), s.resize(block * score.lanes); }
  void begin(A*) const {}
  void merge(A*, const A*) const {}
  void prefetch_row(i64 row) const { score.prefetch_row(row); }
  void end(const A*, i64) const {}
  void add_edges(A*, A*, i64 row, i64 first, i64 last) {
    score.begin(row);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      for (i64 t = 0; t < count; ++t)
        store(out + score.graph.perm[at + t] * score.heads, s.data() + t * score.lanes,
              score.heads);
    }
  }
};

// Return the number of channels that is used as template argument. It is 0 for tanh, or if key and
// value have different numbers of channels.
i64 common_channels(const GATv2Args& args) {
  const bool common = args.channels == args.value_channels && args.activation != Activation::tanh;
  return common ? args.channels : 0;
}

Rows value_of(const GATv2Args& args) { return args.value.data ? args.value : args.key; }

i64 work_per_edge(const GATv2Args& args) {
  return args.heads * (args.channels * (2 + args.features) + args.value_channels + 8);
}

// Write the gradient dW in the shape of the parameter, [h, c, d]. It was summed with shape [d, h
// c].
template <class T, class A> void store_transposed(T* to, const A* from, i64 features, i64 size) {
  for (i64 y = 0; y < size; ++y)
    for (i64 k = 0; k < features; ++k) to[y * features + k] = narrow<T>(from[k * size + y]);
}

void gatv2_forward(const GATv2Args& args) {
  dispatch(args.dtype, args.is_int64, common_channels(args), [&]<class T, class I, int C>() {
    attend<T, I, C>(score_of<T, I, C>(args, args.query, args.key), args, value_of(args), args.heads,
                    args.value_channels);
  });
}

void gatv2_backward(const GATv2Args& args) {
  dispatch(args.dtype, args.is_int64, common_channels(args), [&]<class T, class I, int C>() {
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const i64 heads = args.heads, size = heads * args.channels, features = args.features;
    const auto numbers = scratch<A>(edges.e * 2 * heads);
    const bool has_signs = args.activation == Activation::leaky_relu;
    const auto signs = scratch<std::uint8_t>(has_signs ? edges.e * sign_bytes(size) : 0);
    const Buffer<A> total(size * (1 + features));
    const GATv2BackwardByDestination<T, I, C> by_destination{
        .score = score_of<T, I, C>(args, args.query, args.key),
        .value = value_of(args),
        .grad_out = args.grad_out,
        .out = static_cast<const A*>(args.out_acc),
        .value_channels = args.value_channels,
        .row_max = static_cast<const A*>(args.row_max),
        .row_sum = static_cast<const A*>(args.row_sum),
        .grad_query = static_cast<T*>(args.grad_query),
        .grad_edge_attr = static_cast<T*>(args.grad_edge_attr),
        .edge_values = {numbers.get(), heads},
        .signs = has_signs ? signs.get() : nullptr,
        .terms = terms_of<T, I>(args),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work_per_edge(args), by_destination, total.data());
    store(static_cast<T*>(args.grad_weight), total.data(), size);
    store_transposed(static_cast<T*>(args.grad_edge_proj), total.data() + size, features, size);
    const GATv2BackwardBySource<T, I, C> by_source{
        .score = score_of<T, I, C>(args, args.key, args.query),
        .grad_out = args.grad_out,
        .value_channels = args.value_channels,
        .edge_values = by_destination.edge_values,
        .signs = by_destination.signs,
        .grad_key = static_cast<T*>(args.grad_key),
        .grad_value = static_cast<T*>(args.grad_value),
    };
    walk_rows(edges.colptr, edges.m, work_per_edge(args), by_source);
  });
}

void gatv2_score(const GATv2Args& args) {
  dispatch(args.dtype, args.is_int64, common_channels(args), [&]<class T, class I, int C>() {
    const Edges<I> edges(args);
    const GATv2ScoreWalk<T, I, C> body{
        .score = score_of<T, I, C>(args, args.query, args.key),
        .out = static_cast<T*>(args.out),
    };
    walk_rows(edges.rowptr, edges.n, work_per_edge(args), body);
  });
}

}  // namespace

std::span<const Kernel> gatv2_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(gatv2_forward, GATv2Args),
      GATTN_KERNEL(gatv2_backward, GATv2Args),
      GATTN_KERNEL(gatv2_score, GATv2Args),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
