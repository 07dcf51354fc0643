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
//   ds_ij = alpha_ij (r_ij <dO_i, v_j> - D_i), D_i = <dO_i, O_i>,   f_ij = ds_ij act'(z_ij)
//   dq_i = w sum_j f_ij, dw = sum ds act(z), dW = w sum f a^T, da = W^T (w f)
// where w multiplies each channel of a sum only once. For LeakyReLU, ds act(z) = f z.
// For the second pass, it writes r alpha and ds, [e, h] in CSR order, and (for LeakyReLU) the signs
// of z, one bit for each channel. The pass by source computes dk_j = w sum_i f_ij and dv_j = sum_i
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

// The signs of z of an edge are stored as bits. A register contains L numbers. In each group of 8 L
// channels, bit v of byte i belongs to channel L v + i and is set if z is positive.
template <class A> constexpr i64 sign_lanes = register_bytes / sizeof(A);
template <class A> using Lanes = Vector<A, sign_lanes<A>>;
template <class A> using Bits = decltype(Lanes<A>() > 0);

template <class A> i64 sign_bytes(i64 channels) {
  return (channels + 8 * sign_lanes<A> - 1) / (8 * sign_lanes<A>)*sign_lanes<A>;
}

// Convert between the numbers of a register and one byte each. For the first function, GCC would
// compile __builtin_convertvector to scalar code.
template <class A> GATTN_INLINE Bits<A> load_bytes(const std::uint8_t* from) {
  std::conditional_t<sizeof(A) == 4, std::int32_t, i64> numbers[sign_lanes<A>];
#pragma omp simd
  for (i64 i = 0; i < sign_lanes<A>; ++i) numbers[i] = from[i];
  return std::bit_cast<Bits<A>>(numbers);
}
template <class A> GATTN_INLINE void store_bytes(std::uint8_t* to, const Bits<A>& bits) {
  const auto bytes = __builtin_convertvector(bits, Vector<std::uint8_t, sign_lanes<A>>);
  std::memcpy(to, &bytes, sizeof(bytes));
}

template <class A> GATTN_INLINE Lanes<A> read(const A* from, i64 n) {
  Lanes<A> numbers = {};
  std::memcpy(&numbers, from, n * sizeof(A));
  return numbers;
}
template <class A> GATTN_INLINE void write(A* to, const Lanes<A>& numbers, i64 n) {
  std::memcpy(to, &numbers, n * sizeof(A));
}

// For each bit v of a group of channels, call function(v, k, n), where k is the first of the n
// channels of the bit.
template <class A, class Function>
GATTN_INLINE void for_signs(i64 first, i64 channels, const Function& function) {
  constexpr i64 L = sign_lanes<A>;
  if (first + 8 * L <= channels) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) function(v, first + v * L, std::integral_constant<i64, L>());
    return;
  }
  int v = 0;
  for (; first + L <= channels; ++v, first += L)
    function(v, first, std::integral_constant<i64, L>());
  if (first < channels) function(v, first, channels - first);
}

// Write the number of each head to all channels of the head: to [h, c].
template <class A> GATTN_INLINE void spread_heads(A* to, const A* from, i64 heads, i64 channels) {
  with_channels<A>(channels, [=]<int C>() {
    for (i64 x = 0; x < heads; ++x) fill(to + x * width<C>(channels), from[x], width<C>(channels));
  });
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

// For each head x of an edge, add grad_x tanh(z_x) to sum_x, and replace z_x by f_x = grad_x
// tanh'(z_x).
template <class A>
[[gnu::noinline]] void tanh_gradient(A* sum, A* z, const A* grad, i64 heads, i64 channels) {
  for (i64 x = 0; x < heads; ++x) {
    A *to = z + x * channels, *total = sum + x * channels, grad_score = grad[x];
#pragma omp simd
    for (i64 k = 0; k < channels; ++k) {
      const A y = tanh_of(to[k]);
      total[k] += grad_score * y;
      to[k] = grad_score * (1 - y * y);
    }
  }
}

// The functions with LeakyReLU do not depend on the dtype of the inputs. They compute z as the sum
// of `row` and rows[t], which are stored in the accumulation type.

// Compute the score <w_x, LeakyReLU(z_x)> of each edge of a block and each head x. The row ahead[t]
// is prefetched, unless `ahead` is null. Shapes: score [count, lanes], w and row [h, c].
template <class A> [[gnu::noinline]] void leaky_scores(A* score, const A* w, const A* row,
                                                       const A* const* rows, const A* const* ahead,
                                                       A slope, i64 count, i64 heads, i64 lanes,
                                                       i64 channels, bool is_large = false) {
  with_channels<A>(channels, [=]<int C>() {
    const i64 n = width<C>(channels);
    for (i64 t = 0; t < count; ++t) {
      const A* from = rows[t];
      if (ahead) prefetch_from(is_large, ahead[t], heads * n);
      sums_of_heads<C, A>(score + t * lanes, heads, n, [=](auto at) {
        const i64 x = at.head * n;
        return at.of(w, x) * leaky_relu(at.of(row, x) + at.of(from, x), slope);
      });
    }
  });
}

// For each edge of a block, given the gradient of its scores, compute f. Add f z to the gradient
// dw and f to `sum`, store the signs of z, and write f to `to` unless it is null. Shapes: dw, sum
// and the scratch memory g [h, c], to [count, h, c], grad [count, lanes].
template <class A> [[gnu::noinline]] void leaky_gradients(A* dw, A* sum, std::uint8_t* signs, A* to,
                                                          A* g, const A* row, const A* const* rows,
                                                          const A* grad, A slope, i64 count,
                                                          i64 heads, i64 lanes, i64 channels) {
  constexpr i64 L = sign_lanes<A>;
  const i64 size = heads * channels;
  for (i64 t = 0; t < count; ++t) {
    const A* from = rows[t];
    spread_heads(g, grad + t * lanes, heads, channels);
    for (i64 first = 0; first < size; first += 8 * L, signs += L) {
      Bits<A> bits = {};
      for_signs<A>(first, size, [&](int v, i64 k, auto n) {
        const Lanes<A> z = read(row + k, n) + read(from + k, n), whole = read(g + k, n);
        const Lanes<A> low = slope * whole, f = z > 0 ? whole : low;
        bits |= (z > 0) & (1 << v);
        write(sum + k, read(sum + k, n) + f, n);
        write(dw + k, read(dw + k, n) + f * z, n);
        if (to) write(to + t * size + k, f, n);
      });
      store_bytes<A>(signs, bits);
    }
  }
}

// For each edge of a block, add f to `sum`, given the gradient of its scores and the signs of z.
// The array g, [h, c], is scratch memory.
template <class A> [[gnu::noinline]] void add_signed_gradients(A* sum, A* g, const A* const* grads,
                                                               const std::uint8_t* const* signs,
                                                               A slope, i64 count, i64 heads,
                                                               i64 channels) {
  constexpr i64 L = sign_lanes<A>;
  const i64 size = heads * channels;
  for (i64 t = 0; t < count; ++t) {
    const std::uint8_t* from = signs[t];
    spread_heads(g, grads[t], heads, channels);
    for (i64 first = 0; first < size; first += 8 * L, from += L) {
      const Bits<A> bits = load_bytes<A>(from);
      for_signs<A>(first, size, [&](int v, i64 k, auto n) {
        const Lanes<A> whole = read(g + k, n), low = slope * whole;
        write(sum + k, read(sum + k, n) + ((bits & (1 << v)) != 0 ? whole : low), n);
      });
    }
  }
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

  Buffer<A> row_buffer, w, z, zeros, product, attr, projection;
  const A* current_row = nullptr;
  // For LeakyReLU, z of edge t of a block is the sum of `base` and z_rows[t]. The gathered rows
  // `ahead` belong to later edges.
  const A* base = nullptr;
  Buffer<const A*> z_rows, ahead;
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
    zeros.resize(row_size()), product.resize(row_size());
    z_rows.resize(block), ahead.resize(block);
    for (i64 x = 0; x < heads; ++x) load(w.data() + x * c(), weight[x], c());
    if (!features) return;
    attr.resize(capacity * features), projection.resize(features * row_size());
    // W is stored with shape [d, h, c], so that its rows have the shape of z.
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < c(); ++k)
        for (i64 d = 0; d < features; ++d)
          projection[d * row_size() + x * c() + k] = wide(edge_proj[x][k * features + d]);
  }
  void begin(i64 row) {
    current_row = widened(row_buffer.data(), row_table[row], row_size());
    base = reads_rows() ? current_row : zeros.data();
  }

  // If this is true, z is the sum of two inputs and is not stored.
  bool reads_rows() const { return std::is_same_v<T, A> && !features && !tanh; }

  // Multiply the channels of a sum by w.
  A* weighted(const A* sum) const {
    A* to = product.data();
    const A* factor = w.data();
#pragma omp simd
    for (i64 k = 0; k < row_size(); ++k) to[k] = factor[k] * sum[k];
    return to;
  }

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
    if constexpr (std::is_same_v<T, A>)
      if (reads_rows()) {
        for (i64 t = 0; t < count; ++t) {
          const i64 next = std::min(first + t + prefetch_distance, graph.e - 1);
          z_rows[t] = other[graph.col[first + t]], ahead[t] = other[graph.col[next]];
        }
        return leaky_scores<A>(s, w.data(), base, z_rows.data(), ahead.data(), negative_slope,
                               count, heads, lanes, channels, graph.is_large);
      }
    hidden(
        count,
        [&](i64 t) {
          const i64 at = first + t;
          if (at + prefetch_distance < graph.e) {
            prefetch_from(graph.is_large, other[graph.col[at + prefetch_distance]], row_size());
            if (features) prefetch(edge_attr[graph.perm[at + prefetch_distance]], features);
          }
          return other[graph.col[at]];
        },
        [&](i64 t) { return graph.perm[first + t]; });
    if (tanh) return tanh_scores(s, w.data(), z_of(0), count, heads, lanes, channels);
    point_to_rows<A>(z_rows.data(), z_of(0), count, row_size());
    leaky_scores<A>(s, w.data(), base, z_rows.data(), nullptr, negative_slope, count, heads, lanes,
                    channels);
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
  ScoreGradients<T> gradients;
  T* grad_query;
  // The pointer is null if the activation is tanh.
  std::uint8_t* signs;

  Buffer<A> grad_attr, transposed;
  // Indices, in the caller's order, of the edges whose products are not computed yet.
  Buffer<i64> pending_edges;

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.c(); }
  i64 state_size() const { return score.row_size(); }
  // Sums over all rows: dw, followed by dW with shape [d, h c].
  i64 shared_size() const { return score.row_size() * (1 + score.features); }
  void prepare() {
    constexpr i64 capacity = max_pending + block;
    score.prepare(capacity), gradients.prepare();
    if (!gradients.grad_edge_attr) return;
    const i64 size = score.row_size(), n = score.features;
    pending_edges.resize(capacity), grad_attr.resize(capacity * n), transposed.resize(size * n);
    // The transpose of w W.
    for (i64 k = 0; k < n; ++k)
      for (i64 y = 0; y < size; ++y)
        transposed[y * n + k] = score.w[y] * score.projection[k * size + y];
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void prefetch_row(i64 row) const {
    score.prefetch_row(row);
    gradients.prefetch_row(row);
    prefetch<1>(grad_query + row * state_size(), state_size());
  }
  void set_end(i64 last) { gradients.terms.set_end(last); }
  void finish(A* shared) {
    flush_products(shared);
    gradients.terms.finish();
  }
  void end(const A* state, i64 row) const {
    store(grad_query + row * state_size(), score.weighted(state), state_size());
  }

  void add_edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    score.begin(row), gradients.begin(row), begin(state);
    const i64 size = score.row_size();
    const A* grads = gradients.grads.data();
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, gradients.weights.data());
      gradients.inner_products(score.graph, at, count);
      gradients.compute(at, count);
      if (score.tanh)
        for (i64 t = 0; t < count; ++t) {
          tanh_gradient(shared, score.z_of(t), grads + t * lanes(), heads(), c());
          add(state, score.z_of(t), size);
        }
      else
        leaky_gradients<A>(shared, state, signs + at * sign_bytes<A>(size),
                           score.features ? score.z_of(0) : nullptr, score.product.data(),
                           score.base, score.z_rows.data(), grads, score.negative_slope, count,
                           heads(), lanes(), c());
      if (score.features) append_pending(shared, at, count);
    }
  }

  // Keep f of a block until the products for dW and da are computed. They are computed for
  // several short rows together.
  void append_pending(A* shared, i64 first, i64 count) {
    if (gradients.grad_edge_attr)
      for (i64 t = 0; t < count; ++t)
        pending_edges[score.pending + t] = score.graph.perm[first + t];
    score.pending += count;
    if (score.pending >= max_pending) flush_products(shared);
  }

  void flush_products(A* shared) {
    const i64 size = score.row_size(), n = score.features, count = score.pending;
    if (gradients.grad_edge_attr) edge_gradients(count);
    multiply_add(shared + size, score.attr.data(), 1, n, score.z.data(), n, count, size, size);
    score.pending = 0;
  }

  // Compute the gradient da = W^T (w f) of the edges whose products are not computed yet.
  void edge_gradients(i64 count) {
    const i64 size = score.row_size(), n = score.features;
    fill(grad_attr.data(), A(0), count * n);
    multiply_add(grad_attr.data(), score.z.data(), size, 1, transposed.data(), count, size, n, n);
    for (i64 t = 0; t < count; ++t)
      store(gradients.grad_edge_attr + pending_edges[t] * n, grad_attr.data() + t * n, n);
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
  // If value is key, grad_value is null, and dv is added to dk at the end.
  T *grad_key, *grad_value;

  // Pointers to the row of grad_out, the weights, the gradients of the scores and the signs of each
  // edge of a block.
  Buffer<const T*> rows;
  Buffer<const A*> weights, grads;
  Buffer<const std::uint8_t*> edge_signs;

  i64 c() const { return score.c(); }
  i64 key_size() const { return score.row_size(); }
  i64 value_size() const { return score.heads * value_channels; }
  i64 state_size() const { return key_size() + value_size(); }
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
    A *grad_k = state, *grad_v = state + key_size();
    score.begin(source), fill(grad_k, A(0), key_size());
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) prefetch_edge(at + t + prefetch_distance);
      for (i64 t = 0; t < count; ++t) {
        const i64 position = graph.csr2csc[at + t];
        rows[t] = grad_out[graph.row[at + t]];
        weights[t] = edge_values.weight(position), grads[t] = edge_values.grad_score(position);
        if (signs) edge_signs[t] = signs + position * sign_bytes<A>(key_size());
      }
      if (signs) {
        add_signed_gradients<A>(grad_k, score.product.data(), grads.data(), edge_signs.data(),
                                score.negative_slope, count, score.heads, c());
      } else {
        compute_hidden(at, count);
        for (i64 t = 0; t < count; ++t) {
          tanh_gradient(score.product.data(), score.z_of(t), grads[t], score.heads, c());
          add(grad_k, score.z_of(t), key_size());
        }
      }
      add_weighted_rows(grad_v, at == first, count, score.heads, score.heads, value_channels,
                        weights.data(), rows.data());
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
      const i64 bytes = sign_bytes<A>(key_size());
      prefetch_from(graph.is_large, signs + graph.csr2csc[at] * bytes, bytes);
    } else {
      if (score.features) {
        prefetch(score.edge_attr[graph.perm[graph.csr2csc[at]]], score.features);
        if (at + prefetch_distance < graph.e)
          prefetch_index(graph.perm, graph.csr2csc[at + prefetch_distance]);
      }
      prefetch_from(graph.is_large, score.other[graph.row[at]], key_size());
    }
    prefetch_from(graph.is_large, grad_out[graph.row[at]], value_size());
    prefetch_from(graph.is_large, edge_values.weight(graph.csr2csc[at]), edge_values.step());
  }

  void end(const A* state, i64 source) const {
    A* grad_k = score.weighted(state);
    const A* grad_v = state + key_size();
    if (grad_value)
      store(grad_value + source * value_size(), grad_v, value_size());
    else
      add(grad_k, grad_v, key_size());
    store(grad_key + source * key_size(), grad_k, key_size());
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

// Write the gradient dW in the shape of the parameter, [h, c, d]. The sum of f a^T, with shape [d,
// h c], is multiplied by w.
template <class T, class A> void store_edge_proj(const GATv2Args& args, const A* from) {
  const i64 size = args.heads * args.channels;
  const Table<const T> weight(args.weight);
  T* to = static_cast<T*>(args.grad_edge_proj);
  for (i64 y = 0; y < size; ++y)
    for (i64 k = 0; k < args.features; ++k)
      to[y * args.features + k] =
          narrow<T>(wide(weight[y / args.channels][y % args.channels]) * from[k * size + y]);
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
    const auto signs = scratch<std::uint8_t>(has_signs ? edges.e * sign_bytes<A>(size) : 0);
    const Buffer<A> total(size * (1 + features));
    const GATv2BackwardByDestination<T, I> by_destination{
        .score = score_of<T, I>(args, args.query, args.key),
        .gradients = score_gradients<T>(args, value_of(args), 1, numbers.get()),
        .grad_query = static_cast<T*>(args.grad_query),
        .signs = has_signs ? signs.get() : nullptr,
    };
    walk_rows(edges.rowptr, edges.n, 2 * work_per_edge(args), by_destination, total.data());
    store(static_cast<T*>(args.grad_weight), total.data(), size);
    store_edge_proj<T>(args, total.data() + size);
    const GATv2BackwardBySource<T, I> by_source{
        .score = score_of<T, I>(args, args.key, args.query),
        .grad_out = args.grad_out,
        .value_channels = args.value_channels,
        .edge_values = by_destination.gradients.edge_values,
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
