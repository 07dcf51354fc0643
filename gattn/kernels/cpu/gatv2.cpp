// MLP attention, of GATv2Conv (LeakyReLU) and Bahdanau's additive score (tanh):
//
//   s_ij = w . act(z_ij), z_ij = q_i + k_j + W a_ij
//
// The bias, weight and dropout of an edge are those of edge_terms.h; k below is what alpha is
// multiplied by. Forward reads, per edge, a row of k, one of v (none where v is k) and d features.
// W a is formed a block of edges at a time, in cache.
//
// Backward is two walks. Over the edges into each destination,
//   ds_ij = alpha_ij (k_ij <dO_i, v_j> - D_i), D_i = <dO_i, O_i>,   dz_ij = ds_ij w act'(z_ij)
// gives dq_i = sum_j dz_ij, dw = sum ds act(z), dW = sum dz a^T and da = W^T dz; k alpha and ds are
// handed over, [e, h] in CSR order, and of LeakyReLU the signs of z, a bit a channel. Over the
// edges out of each source dk_j = sum_i dz_ij, for which tanh has z formed again, and dv_j = sum_i
// k_ij alpha_ij dO_i. The derivation is in docs/kernels.md.
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

// Of one number, or of a register of them.
template <class Z, class A> inline Z leaky_relu(Z z, A negative_slope) {
  const Z low = negative_slope * z;
  return z > 0 ? z : low;
}

// The signs of an edge's z: of each 128 channels, bit v of byte i says whether z of channel
// 16 v + i is above zero. So a vector of bytes has one bit of each for a vector of channels.
constexpr i64 sign_lanes = 16, signs_together = 8 * sign_lanes;

inline i64 sign_bytes(i64 channels) {
  return (channels + signs_together - 1) / signs_together * sign_lanes;
}

// Call piece(v, first, n) for the channels that bit v of these bytes is of, n of them.
template <class Piece> GATTN_INLINE void for_signs(i64 first, i64 channels, const Piece& piece) {
  if (first + signs_together <= channels) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v)
      piece(v, first + v * sign_lanes, std::integral_constant<i64, sign_lanes>());
    return;
  }
  for (int v = 0; first < channels; ++v, first += sign_lanes)
    piece(v, first, std::min(sign_lanes, channels - first));
}

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

// to += change where z is above zero, elsewhere the slope times it.
template <class A> [[gnu::noinline]] void add_signed(A* __restrict to, const A* __restrict change,
                                                     const std::uint8_t* sign, A negative_slope,
                                                     i64 channels) {
  for (i64 first = 0; first < channels; first += signs_together, sign += sign_lanes) {
    int bits[sign_lanes];
#pragma omp simd
    for (i64 i = 0; i < sign_lanes; ++i) bits[i] = sign[i];
    for_signs(first, channels, [&](int v, i64 at, auto n) {
#pragma omp simd
      for (i64 i = 0; i < n; ++i) {
        const A own = change[at + i], low = negative_slope * own;
        to[at + i] += bits[i] & 1 << v ? own : low;
      }
    });
  }
}

// With tanh, which costs more than fixed channels would save, there is one form for any number of
// them.

// score_x = <w_x, tanh(z_x)>, of a block: [count, lanes] from [count, h, c].
template <class A> [[gnu::noinline]] void tanh_scores(A* score, const A* w, const A* z, i64 count,
                                                      i64 heads, i64 lanes, i64 channels) {
  for (i64 t = 0; t < count; ++t)
    for (i64 x = 0; x < heads; ++x) {
      const A *from = z + (t * heads + x) * channels, *to = w + x * channels;
      score[t * lanes + x] =
          sum_of<0, A>(channels, [=](i64 k) { return to[k] * tanh_of(from[k]); });
    }
}

// z_x = grad_x w_x tanh'(z_x), of one edge.
template <class A>
[[gnu::noinline]] void tanh_gradient(A* z, const A* w, const A* grad, i64 heads, i64 channels) {
  for (i64 x = 0; x < heads; ++x) {
    A* to = z + x * channels;
    const A *v = w + x * channels, change = grad[x];
#pragma omp simd
    for (i64 k = 0; k < channels; ++k) {
      const A y = tanh_of(to[k]);
      to[k] = change * v[k] * (1 - y * y);
    }
  }
}

// to_x += grad_x tanh(z_x), of one edge.
template <class A>
[[gnu::noinline]] void add_tanh(A* to, const A* grad, const A* z, i64 heads, i64 channels) {
  for (i64 x = 0; x < heads; ++x) {
    const A factor = grad[x];
#pragma omp simd
    for (i64 k = 0; k < channels; ++k)
      to[x * channels + k] += factor * tanh_of(z[x * channels + k]);
  }
}

// z and the score of blocks of edges, from either end: `own` is the row that stays, `other` the
// table that is gathered.
template <class T, class I, int C> struct GATv2Score {
  using A = acc_t<T>;
  static constexpr i64 values_ahead = ahead;

  Edges<I> graph;
  Table<const T> own, other, weight, edge_attr, edge_proj;
  i64 heads, lanes, channels, features;
  bool tanh;  // only where C = 0
  A negative_slope;

  Buffer<A> own_row, w, z, attr, projection;
  const A* row_in_hand = nullptr;
  i64 waiting = 0;  // edges whose z and attr are still needed: those of a block stand behind them

  i64 c() const { return width<C>(channels); }
  bool has_tanh() const { return C == 0 && tanh; }
  i64 row_size() const { return heads * c(); }
  i64 extra_size() const { return 0; }
  bool takes(i64) const { return false; }
  void expect(i64 row) const { prefetch(own[row], row_size()); }
  A* z_of(i64 t) const { return z.data() + (waiting + t) * row_size(); }
  A* attr_of(i64 t) const { return attr.data() + (waiting + t) * features; }
  void prepare(i64 room = block) {
    own_row.resize(row_size()), w.resize(row_size()), z.resize(room * row_size());
    for (i64 x = 0; x < heads; ++x) load(w.data() + x * c(), weight[x], c());
    if (!features) return;
    attr.resize(room * features), projection.resize(features * row_size());
    // W as [d, h, c], so that a row of it is as long as z.
    for (i64 x = 0; x < heads; ++x)
      for (i64 k = 0; k < c(); ++k)
        for (i64 d = 0; d < features; ++d)
          projection[d * row_size() + x * c() + k] = wide(edge_proj[x][k * features + d]);
  }
  void begin(i64 row) { row_in_hand = widened(own_row.data(), own[row], row_size()); }

  // z of a block, from the rows gathered and the caller's edge positions.
  template <class Gather, class Position>
  void hidden(i64 count, const Gather& gathered, const Position& position) {
    for (i64 t = 0; t < count; ++t) {
      const T* row = gathered(t);
      A* to = z_of(t);
      const A* mine = row_in_hand;
#pragma omp simd
      for (i64 k = 0; k < row_size(); ++k) to[k] = mine[k] + wide(row[k]);
    }
    if (!features) return;
    for (i64 t = 0; t < count; ++t) load(attr_of(t), edge_attr[position(t)], features);
    multiply_add(z_of(0), attr_of(0), features, 1, projection.data(), count, features, row_size(),
                 row_size());
  }

  // Forward, backward and the scores alone share it.
  [[gnu::noinline]] void scores(i64 first, i64 count, A* __restrict s) {
    hidden(
        count,
        [&](i64 t) {
          const i64 at = first + t;
          if (at + ahead < graph.e) {
            prefetch(other[graph.col[at + ahead]], row_size());
            if (features) prefetch(edge_attr[graph.perm[at + ahead]], features);
          }
          return other[graph.col[at]];
        },
        [&](i64 t) { return graph.perm[first + t]; });
    if (has_tanh()) return tanh_scores(s, w.data(), z_of(0), count, heads, lanes, c());
    const A* v = w.data();
    const A below = negative_slope;
    const i64 n = c();
    for (i64 t = 0; t < count; ++t) {
      const A* from = z_of(t);
      sums_of_heads<C, A>(s + t * lanes, heads, n, [=](auto at) {
        return at.of(v, at.head * n) * leaky_relu(at.of(from, at.head * n), below);
      });
    }
  }

  // dz of one edge into z, in place, from the gradient of its score, [h].
  void hidden_gradient(i64 t, const A* grad) {
    A* own_z = z_of(t);
    if (has_tanh()) return tanh_gradient(own_z, w.data(), grad, heads, c());
    const A below = negative_slope;
    const i64 n = c();
    for (i64 x = 0; x < heads; ++x) {
      A* to = own_z + x * n;
      const A *v = w.data() + x * n, change = grad[x];
#pragma omp simd
      for (i64 k = 0; k < n; ++k) to[k] = change * v[k] * (to[k] > 0 ? A(1) : below);
    }
  }

  // grad_x w_x of one edge, [h, c], where its z would stand.
  void weighted_gradient(const A* grad) {
    const i64 n = c();
    for (i64 x = 0; x < heads; ++x) {
      A* to = z.data() + x * n;
      const A *v = w.data() + x * n, change = grad[x];
      for_channels<C>(n, [=](i64 k) { to[k] = change * v[k]; });
    }
  }

  void take(A*, A*, i64, i64, const A*, const A*, const T* const*, const i64*) {}
  void end(A*, const A*, const A*, const A*, i64) {}
};

template <class T, class I, int C>
GATv2Score<T, I, C> score_of(const GATv2Args& args, const Rows& own, const Rows& other) {
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
      .tanh = args.activation == Activation::tanh,
      .negative_slope = acc_t<T>(args.negative_slope),
  };
}

template <class T, class I, int C> struct GATv2BackwardByDestination {
  using A = acc_t<T>;

  GATv2Score<T, I, C> score;
  Table<const T> value, grad_out;
  const A* out;
  i64 value_channels;
  const A *row_max, *row_sum;
  T *grad_query, *grad_edge_attr;
  HandedOver<A> handed;
  std::uint8_t* signs;  // null with tanh
  EdgeTerms<T, I> terms;

  Buffer<A> s, ds, g, delta, shift, inverse, grad_attr, transposed;
  const A* own_grad = nullptr;
  Buffer<i64> waiting_edge;  // the caller's positions of those that wait

  i64 heads() const { return score.heads; }
  i64 lanes() const { return score.lanes; }
  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 state_size() const { return score.row_size(); }
  // Sums over all rows: dw, then dW as [d, h c].
  i64 shared_size() const { return score.row_size() * (1 + score.features); }
  void prepare() {
    constexpr i64 room = most_waiting + block;
    score.prepare(room), terms.prepare();
    s.resize(block * lanes()), ds.resize(block * lanes()), g.resize(heads() * cv());
    delta.resize(lanes()), shift.resize(lanes()), inverse.resize(lanes());
    if (!grad_edge_attr) return;
    const i64 size = score.row_size(), n = score.features;
    waiting_edge.resize(room), grad_attr.resize(room * n), transposed.resize(size * n);
    for (i64 k = 0; k < n; ++k)
      for (i64 y = 0; y < size; ++y) transposed[y * n + k] = score.projection[k * size + y];
  }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void expect(i64 row) const {
    score.expect(row);
    prefetch(grad_out[row], heads() * cv());
    prefetch(out + row * heads() * cv(), heads() * cv());
    prefetch<1>(grad_query + row * state_size(), state_size());
  }
  void follow(i64 last) { terms.follow(last); }
  void finish(A* shared) {
    join_products(shared);
    terms.finish();
  }
  void end(const A* state, i64 row) const {
    store(grad_query + row * state_size(), state, state_size());
  }

  void edges(A* state, A* shared, i64 row, i64 first, i64 last) {
    begin_row(row), begin(state);
    const i64 size = score.row_size();
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      score.scores(at, count, s.data());
      if (terms.bias) terms.add_bias(s.data(), at, count);
      gradients(at, count);
      for (i64 t = 0; t < count; ++t) {
        const A* change = ds.data() + t * lanes();
        handed.store(at + t, s.data() + t * lanes(), change);
        weight_gradient(shared, t, change);
        if (signs) pack_signs(signs + (at + t) * sign_bytes(size), score.z_of(t), size);
        score.hidden_gradient(t, change);
        add(state, score.z_of(t), size);
      }
      if (score.features) wait(shared, at, count);
    }
  }

  // dW and da need the dz of a block: they are formed of several short rows at a time.
  void wait(A* shared, i64 first, i64 count) {
    if (grad_edge_attr)
      for (i64 t = 0; t < count; ++t) waiting_edge[score.waiting + t] = score.graph.perm[first + t];
    score.waiting += count;
    if (score.waiting >= most_waiting) join_products(shared);
  }

  void join_products(A* shared) {
    const i64 size = score.row_size(), n = score.features, count = score.waiting;
    if (grad_edge_attr) edge_gradients(count);
    multiply_add(shared + size, score.attr.data(), 1, n, score.z.data(), n, count, size, size);
    score.waiting = 0;
  }

  void begin_row(i64 row) {
    score.begin(row);
    own_grad = widened(g.data(), grad_out[row], heads() * cv());
    head_dots<C>(delta.data(), own_grad, out + row * heads() * cv(), heads(), cv());
    load_softmax(shift.data(), inverse.data(), row_max, row_sum, row, heads(), lanes());
  }

  // alpha times its factors into s, the score's gradient into ds.
  void gradients(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    A *flat = s.data(), *products = ds.data();
    const A *own_shift = shift.data(), *inv = inverse.data(), *own_delta = delta.data();
    for (i64 t = 0; t < count; ++t) {
      const i64 at = first + t;
      if (at + ahead < graph.e) {
        prefetch(value[graph.col[at + ahead]], heads() * cv());
        if (grad_edge_attr)
          prefetch<1>(grad_edge_attr + graph.perm[at + ahead] * score.features, score.features);
      }
      const T* v = value[graph.col[at]];
      A *inner = ds.data() + t * lanes(), *exponent = flat + t * lanes();
      head_dots<C>(inner, own_grad, v, heads(), cv());
      for_lanes(lanes(), [=](i64 x) { exponent[x] -= own_shift[x]; });
    }
    exponentials(flat, count * lanes());
    if (terms.has_factors()) terms.scale_products(products, first, count);
    for (i64 t = 0; t < count; ++t) {
      A *p = flat + t * lanes(), *change = ds.data() + t * lanes();
      for_lanes(lanes(), [=](i64 x) {
        p[x] *= inv[x];
        change[x] = p[x] * (change[x] - own_delta[x]);
      });
    }
    if (terms.bias.back) terms.store_bias_gradients(products, first, count);
    if (terms.has_factors()) terms.scale_weights(flat, first, count);
  }

  void weight_gradient(A* to, i64 t, const A* change) {
    const A* z = score.z_of(t);
    const A below = score.negative_slope;
    const i64 n = c();
    if (score.has_tanh()) return add_tanh(to, change, z, heads(), n);
    for (i64 x = 0; x < heads(); ++x) {
      const A factor = change[x];
#pragma omp simd
      for (i64 k = 0; k < n; ++k) to[x * n + k] += factor * leaky_relu(z[x * n + k], below);
    }
  }

  // W^T dz of the edges that wait.
  void edge_gradients(i64 count) {
    const i64 size = score.row_size(), n = score.features;
    fill(grad_attr.data(), A(0), count * n);
    multiply_add(grad_attr.data(), score.z.data(), size, 1, transposed.data(), count, size, n, n);
    for (i64 t = 0; t < count; ++t)
      store(grad_edge_attr + waiting_edge[t] * n, grad_attr.data() + t * n, n);
  }
};

template <class T, class I, int C> struct GATv2BackwardBySource {
  using A = acc_t<T>;

  GATv2Score<T, I, C> score;
  Table<const T> grad_out;
  i64 value_channels;
  HandedOver<A> handed;
  const std::uint8_t* signs;  // null with tanh: then z is formed again
  T *grad_key, *grad_value;   // grad_value is null where value is key: dv joins dk

  i64 c() const { return score.c(); }
  i64 cv() const { return C ? C : value_channels; }
  i64 key_size() const { return score.row_size(); }
  i64 value_size() const { return score.heads * cv(); }
  i64 state_size() const { return key_size() + (grad_value ? value_size() : 0); }
  i64 shared_size() const { return 0; }
  void prepare() { score.prepare(); }
  void begin(A* state) const { fill(state, A(0), state_size()); }
  void merge(A* into, const A* from) const { add(into, from, state_size()); }
  void expect(i64 source) const {
    if (!signs) score.expect(source);
    prefetch<1>(grad_key + source * key_size(), key_size());
    if (grad_value) prefetch<1>(grad_value + source * value_size(), value_size());
  }

  void edges(A* state, A*, i64 source, i64 first, i64 last) {
    const Edges<I>& graph = score.graph;
    A *grad_k = state, *grad_v = grad_value ? state + key_size() : state;
    score.begin(source), begin(state);
    for (i64 at = first; at < last; at += block) {
      const i64 count = std::min(block, last - at);
      for (i64 t = 0; t < count; ++t) ask(at + t + ahead);
      if (!signs) form_hidden(at, count);
      for (i64 t = 0; t < count; ++t) {
        const i64 position = graph.csr2csc[at + t];
        const A* change = handed.grad_score(position);
        if (signs) {
          score.weighted_gradient(change);
          add_signed(grad_k, score.z_of(0), signs + position * sign_bytes(key_size()),
                     score.negative_slope, key_size());
        } else {
          score.hidden_gradient(t, change);
          add(grad_k, score.z_of(t), key_size());
        }
      }
      add_rows<C, T>(
          grad_v, false, count, score.heads, cv(),
          [=, this](i64 t) { return handed.weight(score.graph.csr2csc[at + t]); },
          [=, this](i64 t) { return grad_out[score.graph.row[at + t]]; },
          [this](i64 x) { return x * cv(); });
    }
  }

  [[gnu::noinline]] void form_hidden(i64 first, i64 count) {
    const Edges<I>& graph = score.graph;
    score.hidden(
        count, [&](i64 t) { return score.other[graph.row[first + t]]; },
        [&](i64 t) { return graph.perm[graph.csr2csc[first + t]]; });
  }

  void ask(i64 at) const {
    const Edges<I>& graph = score.graph;
    if (at >= graph.e) return;
    if (signs) {
      prefetch(signs + graph.csr2csc[at] * sign_bytes(key_size()), sign_bytes(key_size()));
    } else {
      if (score.features) {
        prefetch(score.edge_attr[graph.perm[graph.csr2csc[at]]], score.features);
        if (at + ahead < graph.e) prefetch_index(graph.perm, graph.csr2csc[at + ahead]);
      }
      prefetch(score.other[graph.row[at]], key_size());
    }
    prefetch(grad_out[graph.row[at]], value_size());
    handed.ask(graph.csr2csc[at]);
  }

  void end(const A* state, i64 source) const {
    store(grad_key + source * key_size(), state, key_size());
    if (grad_value) store(grad_value + source * value_size(), state + key_size(), value_size());
  }
};

// Scores alone, at the caller's positions.
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
  void expect(i64 row) const { score.expect(row); }
  void end(const A*, i64) const {}
  void edges(A*, A*, i64 row, i64 first, i64 last) {
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

// The channels to dispatch on: those compiled in serve key and value alike, and not tanh.
i64 common_channels(const GATv2Args& args) {
  const bool common = args.channels == args.value_channels && args.activation != Activation::tanh;
  return common ? args.channels : 0;
}

Rows value_of(const GATv2Args& args) { return args.value.data ? args.value : args.key; }

i64 work_per_edge(const GATv2Args& args) {
  return args.heads * (args.channels * (2 + args.features) + args.value_channels + 8);
}

// The sum of dW, [d, h c], as the parameter stands: [h, c, d].
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
        .handed = {numbers.get(), heads},
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
        .handed = by_destination.handed,
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
