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
#include "head_sums.h"
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

// The functions with LeakyReLU are compiled for common numbers of channels. They do not depend on
// the dtype of the inputs, because z and the gradients are stored in the accumulation type.

// Compute the score <w_x, LeakyReLU(z_x)> of each edge of a block and each head x. Shapes: score
// [count, lanes], z [count, h, c].
template <class A> [[gnu::noinline]] void leaky_scores(A* score, const A* w, const A* z, A slope,
                                                       i64 count, i64 heads, i64 lanes,
                                                       i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 n = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      const A* from = z + t * heads * n;
      sums_of_heads<C, A>(score + t * lanes, heads, n, [=](auto at) {
        return at.of(w, at.head * n) * leaky_relu(at.of(from, at.head * n), slope);
      });
    }
  });
}

// For each edge of a block, given the gradient of its scores, add ds LeakyReLU(z) to the gradient
// dw, store the signs of z, replace z by its gradient dz, and add dz to the gradient dq. Shapes:
// dw and dq [h, c], grad [count, lanes], z [count, h, c].
template <class A> [[gnu::noinline]] void leaky_gradients(A* dw, A* dq, std::uint8_t* signs,
                                                          const A* w, A* z, const A* grad, A slope,
                                                          i64 count, i64 heads, i64 lanes,
                                                          i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 n = width<C>(channels), size = heads * n;
    for (i64 t = 0; t < count; ++t) {
      A* edge_z = z + t * size;
      const A* edge_grad = grad + t * lanes;
      for (i64 x = 0; x < heads; ++x) {
        const A factor = edge_grad[x];
#pragma omp simd
        for (i64 k = x * n; k < x * n + n; ++k) dw[k] += factor * leaky_relu(edge_z[k], slope);
      }
      pack_signs(signs + t * sign_bytes(size), edge_z, size);
      for (i64 x = 0; x < heads; ++x) {
        const A factor = edge_grad[x];
#pragma omp simd
        for (i64 k = x * n; k < x * n + n; ++k)
          edge_z[k] = factor * w[k] * (edge_z[k] > 0 ? A(1) : slope);
      }
      add(dq, edge_z, size);
    }
  });
}

// For each edge of a block, add the gradient dz to `to`, given the gradient of its scores and the
// signs of z. The array `product`, [h, c], is scratch memory.
template <class A>
[[gnu::noinline]] void add_signed_gradients(A* to, A* product, const A* w, const A* const* grads,
                                            const std::uint8_t* const* signs, A slope, i64 count,
                                            i64 heads, i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 n = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      for (i64 x = 0; x < heads; ++x) {
        A* row = product + x * n;
        const A *v = w + x * n, grad_score = grads[t][x];
        for_channels<C>(n, [=](i64 k) { row[k] = grad_score * v[k]; });
      }
      add_signed(to, product, signs[t], slope, heads * n);
    }
  });
}

// This class computes z and the scores of blocks of edges, in a pass by destination or by source.
// `row_table` contains the features of the nodes whose edges the pass processes together. `other`
// contains the features of the nodes at the other end of the edges, which are gathered.
template <class T, class I> struct GATv2Score {
  using A = acc_t<T>;
  static constexpr i64 value_prefetch_distance = prefetch_distance;

  Edges<I> graph;
  Table<const T> row_table, other, weight, edge_attr, edge_proj;
  i64 heads, lanes, channels, features;
  // If this is true, the activation is tanh, otherwise LeakyReLU.
  bool tanh;
  A negative_slope;

  Buffer<A> row_buffer, w, z, attr, projection;
  const A* current_row = nullptr;
  // Number of edges of earlier blocks whose products for dW and da are not computed yet.
  i64 pending = 0;

  i64 c() const { return channels; }
  i64 row_size() const { return heads * channels; }
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
    if (tanh)
      tanh_scores(s, w.data(), z_of(0), count, heads, lanes, channels);
    else
      leaky_scores(s, w.data(), z_of(0), negative_slope, count, heads, lanes, channels);
  }

  void accumulate_extra(A*, A*, i64, i64, const A*, const A*, const T* const*) {}
  void end(A*, const A*, const A*, const A*, i64) {}
};

template <class T, class I>
GATv2Score<T, I> score_of(const GATv2Args& args, const Rows& row_table, const Rows& other) {
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
template <class T, class I> struct GATv2BackwardByDestination {
  using A = acc_t<T>;

  GATv2Score<T, I> score;
  Table<const T> value, grad_out;
  const A* out;
  i64 value_channels;
  const A *row_max, *row_sum;
  T *grad_query, *grad_edge_attr;
  EdgeValues<A> edge_values;
  // The pointer is null if the activation is tanh.
  std::uint8_t* signs;
  EdgeTerms<T> terms;

  Buffer<A> s, ds, g, delta, shift, inverse, grad_attr, transposed;
  const A* grad_row = nullptr;
  // Rows of values of a block of edges and of later edges.
  Buffer<const T*> rows, ahead;
  // Indices, in the caller's order, of the edges whose products are not computed yet.
  Buffer<i64> pending_edges;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.c(); }
  i64 cv() const { return value_channels; }
  i64 state_size() const { return score.row_size(); }
  // Sums over all rows: dw, followed by dW with shape [d, h c].
  i64 shared_size() const { return score.row_size() * (1 + score.features); }
  void prepare() {
    constexpr i64 capacity = max_pending + block;
    score.prepare(capacity), terms.prepare();
    s.resize(block * lanes()), ds.resize(block * lanes()), g.resize(heads() * cv());
    delta.resize(lanes()), shift.resize(lanes()), inverse.resize(lanes());
    rows.resize(block), ahead.resize(block);
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
      for (i64 t = 0; t < count; ++t)
        edge_values.store(at + t, s.data() + t * lanes(), ds.data() + t * lanes());
      if (score.tanh)
        for (i64 t = 0; t < count; ++t) {
          A *z = score.z_of(t), *grad_score = ds.data() + t * lanes();
          add_tanh(shared, grad_score, z, heads(), c());
          tanh_gradient(z, score.w.data(), grad_score, heads(), c());
          add(state, z, size);
        }
      else
        leaky_gradients(shared, state, signs + at * sign_bytes(size), score.w.data(), score.z_of(0),
                        ds.data(), score.negative_slope, count, heads(), lanes(), c());
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
    const A* out_row = out + row * heads() * cv();
    dot_rows<A>(delta.data(), lanes(), grad_row, &out_row, nullptr, 1, heads(), cv());
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads(), lanes());
  }

  // For each edge of a block, write the product of alpha, dropout factor and edge weight to s, and
  // the gradient of the score to ds.
  void gradients(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    A *alphas = s.data(), *products = ds.data();
    const A *row_shift = shift.data(), *inv = inverse.data(), *row_delta = delta.data();
    for (i64 t = 0; t < count; ++t) {
      const i64 next = std::min(first + t + prefetch_distance, graph.e - 1);
      rows[t] = value[graph.col[first + t]], ahead[t] = value[graph.col[next]];
      if (grad_edge_attr)
        prefetch<1>(grad_edge_attr + graph.perm[next] * score.features, score.features);
      A* exponent = alphas + t * lanes();
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= row_shift[x]; });
    }
    dot_rows(products, lanes(), grad_row, rows.data(), ahead.data(), count, heads(), cv());
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
template <class T, class I> struct GATv2BackwardBySource {
  using A = acc_t<T>;

  GATv2Score<T, I> score;
  Table<const T> grad_out;
  i64 value_channels;
  EdgeValues<A> edge_values;
  // The pointer is null if the activation is tanh. In this case, z is computed again.
  const std::uint8_t* signs;
  // If value is key, grad_value is null, and dv is added to dk.
  T *grad_key, *grad_value;

  // Pointers to the row of grad_out, the weights, the gradients of the scores and the signs of each
  // edge of a block.
  Buffer<const T*> rows;
  Buffer<const A*> weights, grads;
  Buffer<const std::uint8_t*> edge_signs;

  i64 c() const { return score.c(); }
  i64 cv() const { return value_channels; }
  i64 key_size() const { return score.row_size(); }
  i64 value_size() const { return score.heads * cv(); }
  i64 state_size() const { return key_size() + (grad_value ? value_size() : 0); }
  i64 shared_size() const { return 0; }
  void prepare() {
    score.prepare(), rows.resize(block), weights.resize(block);
    grads.resize(block), edge_signs.resize(block);
  }
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
      for (i64 t = 0; t < count; ++t) {
        const i64 position = graph.csr2csc[at + t];
        rows[t] = grad_out[graph.row[at + t]];
        weights[t] = edge_values.weight(position), grads[t] = edge_values.grad_score(position);
        if (signs) edge_signs[t] = signs + position * sign_bytes(key_size());
      }
      if (signs) {
        add_signed_gradients(grad_k, score.z_of(0), score.w.data(), grads.data(), edge_signs.data(),
                             score.negative_slope, count, score.heads, c());
      } else {
        compute_hidden(at, count);
        for (i64 t = 0; t < count; ++t) {
          tanh_gradient(score.z_of(t), score.w.data(), grads[t], score.heads, c());
          add(grad_k, score.z_of(t), key_size());
        }
      }
      add_weighted_rows(grad_v, false, count, score.heads, score.heads, cv(), weights.data(),
                        rows.data());
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
template <class T, class I> struct GATv2ScoreWalk {
  using A = acc_t<T>;

  GATv2Score<T, I> score;
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
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    attend<T, I>(score_of<T, I>(args, args.query, args.key), args, value_of(args), args.heads,
                 args.value_channels);
  });
}

void gatv2_backward(const GATv2Args& args) {
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    using A = acc_t<T>;
    const Edges<I> edges(args);
    const i64 heads = args.heads, size = heads * args.channels, features = args.features;
    const auto numbers = scratch<A>(edges.e * 2 * heads);
    const bool has_signs = args.activation == Activation::leaky_relu;
    const auto signs = scratch<std::uint8_t>(has_signs ? edges.e * sign_bytes(size) : 0);
    const Buffer<A> total(size * (1 + features));
    const GATv2BackwardByDestination<T, I> by_destination{
        .score = score_of<T, I>(args, args.query, args.key),
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
        .terms = terms_of<T>(args),
    };
    walk_rows(edges.rowptr, edges.n, 2 * work_per_edge(args), by_destination, total.data());
    store(static_cast<T*>(args.grad_weight), total.data(), size);
    store_transposed(static_cast<T*>(args.grad_edge_proj), total.data() + size, features, size);
    const GATv2BackwardBySource<T, I> by_source{
        .score = score_of<T, I>(args, args.key, args.query),
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
  dispatch(args.dtype, args.is_int64, [&]<class T, class I>() {
    const Edges<I> edges(args);
    const GATv2ScoreWalk<T, I> body{
        .score = score_of<T, I>(args, args.query, args.key),
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
