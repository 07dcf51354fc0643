// These kernels compute the molecule network of gattn.apps.molecules: the embedding of the atoms,
// layers x + ELU(GATConv(LayerNorm(x))), the readout by learned queries, and the head.
//
// A batch of 64 molecules is so small that starting operators takes longer than their work. Here,
// the features of a block of molecules stay in the cache from the first layer to the last one. The
// batch is divided into two shares, whose gradients are added in a fixed order, so that one and two
// threads give the same bits.
//
// Self-loops are not stored. The features of a self-loop are the mean of the features of the atom's
// bonds, and the score of an edge is linear in its features. The score of a self-loop is therefore
// the mean of the scores of the bonds. The last weight of each atom in `edge_weights` belongs to
// its self-loop. The sign of a weight is negative if the score was not positive, where the
// LeakyReLU has another slope.
#include "molecule_network.h"

#include <cmath>
#include <stdexcept>

#include "head_sums.h"
#include "multiply_add.h"

namespace gattn::GATTN_ISA {

namespace {

constexpr double epsilon = 1e-5, slope = 0.2, atoms_scale = 10;

template <class A> class MoleculeNetwork : MoleculeSizes<A> {
  using Base = MoleculeSizes<A>;
  using Base::args, Base::n, Base::g, Base::fa, Base::fb, Base::d, Base::h, Base::c, Base::lanes,
      Base::layers, Base::q, Base::scores, Base::cq, Base::inputs, Base::all_inputs, Base::t;
  using Base::layer, Base::tail, Base::of_layer, Base::of_tail, Base::offsets;

 public:
  explicit MoleculeNetwork(const MoleculeNetworkArgs& args)
      : Base(args),
        x_(static_cast<const A*>(args.x)),
        edge_attr_(static_cast<const A*>(args.edge_attr)),
        ptr_(args.ptr),
        rowptr_(args.edges),
        source_(rowptr_ + n + 1),
        edge_(source_ + args.num_edges) {
    for (i64 m = 0; m < g; ++m)
      largest_ = std::max<i64>({largest_, ptr_[m + 1] - ptr_[m], block_atoms});
  }

  void forward() {
    sort_edges();
    prepare();
    const bool is_saved = args.rows != nullptr;
    std::vector<Block> blocks(num_shares);
    for (Block& block : blocks) {
      for (Scratch<A>* rows : {&block.features, &block.normed}) *rows = scratch<A>(largest_ * d);
      block.queries = scratch<A>(2 * largest_ * lanes);
      block.edge_scores = scratch<A>(max_edges_ * layers * lanes);
      block.weights = scratch<A>((max_degree_ + 1) * lanes);
      if (is_saved) continue;
      block.rows = scratch<A>(5 * largest_ * d);
      block.edge_weights = scratch<A>((max_edges_ + largest_) * lanes);
      block.query_weights = scratch<A>(largest_ * scores);
    }
    for_each_share(args.threads, [&](i64 share) {
      Block& block = blocks[share];
      const i64 first = first_of_share(ptr_, g, share), end = first_of_share(ptr_, g, share + 1);
      for_each_block(first, end, [&](i64 m0, i64 m1) { forward_of_block(block, m0, m1); });
      forward_of_head(first, end);
    });
  }

  void backward() {
    count_edges();
    prepare_query();
    const i64 size = this->num_parameters(), fold = fb * layers * lanes;
    const i64 all = size + fold + scores * d + fa * d;
    // The first share writes its gradients into the result.
    const Buffer<A> sums(num_shares * (all - size) + (num_shares - 1) * size);
    std::vector<Gradients> gradients(num_shares);
    std::vector<Block> blocks(num_shares);
    A* next = sums.data();
    for (i64 share = 0; share < num_shares; ++share) {
      Gradients& to = gradients[share];
      to.parameters = share ? next : static_cast<A*>(args.gradients);
      if (share) next += size;
      to.fold = next, to.query = to.fold + fold, to.atoms = to.query + scores * d;
      next = to.atoms + fa * d;
      Block& block = blocks[share];
      for (Scratch<A>* rows : {&block.features, &block.normed, &block.outputs, &block.values})
        *rows = scratch<A>(largest_ * d);
      block.queries = scratch<A>(2 * largest_ * lanes);
      block.edge_scores = scratch<A>(max_edges_ * layers * lanes);
      block.weights = scratch<A>((max_degree_ + 1) * lanes);
      block.query_weights = scratch<A>(largest_ * scores);
      block.transposed = scratch<A>(scores * d);
    }
    fill(static_cast<A*>(args.gradients), A(0), size);
    const Scratch<A> pooled = scratch<A>(g * (scores + 1) * d), values = scratch<A>(g * q * d),
                     head_input = scratch<A>(g * all_inputs), hidden = scratch<A>(g * d);
    for_each_share(args.threads, [&](i64 share) {
      const i64 first = first_of_share(ptr_, g, share), end = first_of_share(ptr_, g, share + 1);
      backward_of_head(gradients[share], first, end, pooled.get(), values.get(), head_input.get(),
                       hidden.get());
      for_each_block(first, end, [&](i64 m0, i64 m1) {
        backward_of_block(blocks[share], gradients[share], pooled.get(), m0, m1);
      });
    });
    for (i64 share = 1; share < num_shares; ++share) {
      add(gradients[0].parameters, gradients[share].parameters, size);
      add(gradients[0].fold, gradients[share].fold, all - size);
    }
    finish(gradients[0]);
  }

 private:
  struct Block {
    Scratch<A> features, normed, outputs, values, queries, edge_scores, weights;
    Scratch<A> rows, edge_weights, query_weights, transposed;
  };
  // This struct contains the sums over the molecules of a share: the gradients of the parameters,
  // of the folded vectors of the edges and queries, and of the transposed weight of the atoms.
  struct Gradients {
    A *parameters, *fold, *query, *atoms;
  };

  static void multiply(A* to, i64 to_stride, const A* left, i64 row, i64 step, const A* right,
                       i64 stride, i64 rows, i64 depth, i64 columns) {
    multiply_add(to, left, row, step, right, rows, depth, columns, stride, to_stride);
  }
  A* states(void* data) const { return static_cast<A*>(data); }
  A* gradient(const Gradients& to, i64 number) const { return to.parameters + offsets[number]; }

  // Sort the edges by destination, without self-loops, because the network adds self-loops itself.
  void sort_edges() {
    const i64 *source = args.source, *destination = args.destination;
    if (g ? ptr_[0] != 0 || ptr_[g] != n : n != 0)
      throw std::invalid_argument("ptr must begin with 0 and end with the number of atoms");
    std::fill_n(rowptr_, n + 1, 0);
    for (i64 k = 0; k < args.num_edges; ++k) {
      if (source[k] < 0 || source[k] >= n || destination[k] < 0 || destination[k] >= n)
        throw std::invalid_argument("edge_index must contain indices of atoms");
      if (source[k] != destination[k]) ++rowptr_[destination[k] + 1];
    }
    for (i64 i = 0; i < n; ++i) rowptr_[i + 1] += rowptr_[i];
    std::vector<std::int32_t> next(rowptr_, rowptr_ + n);
    for (i64 k = 0; k < args.num_edges; ++k) {
      if (source[k] == destination[k]) continue;
      const i64 at = next[destination[k]]++;
      source_[at] = std::int32_t(source[k]), edge_[at] = std::int32_t(k);
    }
    for (i64 m = 0; m < g; ++m) {
      if (ptr_[m] > ptr_[m + 1]) throw std::invalid_argument("ptr must not decrease");
      for (i64 k = rowptr_[ptr_[m]]; k < rowptr_[ptr_[m + 1]]; ++k)
        if (source_[k] < ptr_[m] || source_[k] >= ptr_[m + 1])
          throw std::invalid_argument("an edge must join atoms of one molecule");
    }
    count_edges();
  }

  void count_edges() {
    for_each_block(0, g, [&](i64 m0, i64 m1) {
      max_edges_ = std::max<i64>(max_edges_, rowptr_[ptr_[m1]] - rowptr_[ptr_[m0]]);
    });
    // The first block of a share begins at the first molecule of the share, so the blocks of shares
    // can differ from the blocks of the whole batch.
    for (i64 share = 0; share < num_shares; ++share)
      for_each_block(
          first_of_share(ptr_, g, share), first_of_share(ptr_, g, share + 1), [&](i64 m0, i64 m1) {
            max_edges_ = std::max<i64>(max_edges_, rowptr_[ptr_[m1]] - rowptr_[ptr_[m0]]);
          });
    for (i64 i = 0; i < n; ++i)
      max_degree_ = std::max<i64>(max_degree_, rowptr_[i + 1] - rowptr_[i]);
  }

  template <class Function> void for_each_block(i64 m0, i64 end, const Function& function) const {
    while (m0 < end) {
      i64 m1 = m0 + 1;
      while (m1 < end && ptr_[m1 + 1] - ptr_[m0] <= block_atoms) ++m1;
      function(m0, m1);
      m0 = m1;
    }
  }

  // Transpose the weights for the forward pass. Multiply the attention vectors of the edges and the
  // queries by their projections in advance, so that one product with the raw features is enough.
  void prepare() {
    const i64 square = d * d;
    transposed_ = scratch<A>(fa * d + (layers + 3) * square + all_inputs * d + d * t);
    A* to = transposed_.get();
    const auto add = [&](const A* weight, i64 rows, i64 columns) {
      transpose(to, weight, rows, columns, rows);
      to += rows * columns;
      return to - rows * columns;
    };
    atoms_ = add(this->parameter(0), d, fa);
    for (i64 l = 0; l < layers; ++l) lin_.push_back(add(layer(l, LayerPart::lin), d, d));
    value_ = add(tail(TailPart::lin_value), d, d);
    out_ = add(tail(TailPart::lin_out), d, d);
    project_ = add(tail(TailPart::project), d, d);
    hidden_ = add(tail(TailPart::hidden_weight), d, all_inputs);
    last_ = add(tail(TailPart::last_weight), t, d);
    fold_.resize(fb * layers * lanes);
    for (i64 l = 0; l < layers; ++l)
      for (i64 x = 0; x < d; ++x)
        for (i64 k = 0; k < fb; ++k)
          fold_[(k * layers + l) * lanes + x / c] +=
              layer(l, LayerPart::att_edge)[x] * layer(l, LayerPart::lin_edge)[x * fb + k];
    prepare_query();
    transposed_query_ = scratch<A>(d * scores);
    transpose(transposed_query_.get(), query_.data(), scores, d, scores);
  }

  A query_scale() const { return 1 / std::sqrt(A(cq)); }

  // The score of a query and a head is the product of the features of an atom with one vector, [q *
  // q, d].
  void prepare_query() {
    query_.resize(scores * d);
    for (i64 k = 0; k < q; ++k)
      for (i64 x = 0; x < d; ++x)
        axpy<0>(query_.data() + (k * q + x / cq) * d,
                query_scale() * tail(TailPart::query)[k * d + x], tail(TailPart::lin_key) + x * d,
                d);
  }

  // This struct contains the features of an atom that a backward pass needs: the features after the
  // embedding (0) and after the last layer, and for each layer the normalised features, the
  // projected features and the result of ELU. If there is no backward pass, layers overwrite the
  // features of other layers.
  A* row(const Block& block, i64 number, i64 atom, i64 first) const {
    if (args.rows) return states(args.rows) + (number * n + atom) * d;
    const i64 at = number == 0 ? 0 : number == 1 + 3 * layers ? 4 : 1 + (number - 1) % 3;
    return block.rows.get() + (at * largest_ + atom - first) * d;
  }
  A* weights_of(const Block& block, i64 l, i64 atom, i64 first) const {
    const i64 at = rowptr_[atom] + atom;
    if (args.rows) return states(args.edge_weights) + (l * (args.num_edges + n) + at) * lanes;
    return block.edge_weights.get() + (at - rowptr_[first] - first) * lanes;
  }
  A* query_weights_of(const Block& block, i64 atom, i64 first) const {
    if (args.rows) return states(args.query_weights) + atom * scores;
    return block.query_weights.get() + (atom - first) * scores;
  }

  void forward_of_block(Block& block, i64 m0, i64 m1) {
    const i64 a0 = ptr_[m0], a1 = ptr_[m1], count = a1 - a0;
    A* features = block.features.get();
    for (i64 i = a0; i < a1; ++i) {
      A *to = row(block, 0, i, a0), *current = features + (i - a0) * d;
      load(current, this->parameter(1), d);
      for (i64 k = 0; k < fa; ++k)
        if (const A value = x_[i * fa + k]; value != 0) axpy<0>(current, value, atoms_ + k * d, d);
      for (i64 k = 0; k < d; ++k) current[k] = current[k] < 0 ? 0 : current[k];
      load(to, current, d);
    }
    score_edges(block.edge_scores.get(), a0, a1);
    for (i64 l = 0; l < layers; ++l) {
      A *normed = block.normed.get(), *projected = row(block, 2 + 3 * l, a0, a0);
      for (i64 i = a0; i < a1; ++i)
        normalise(normed + (i - a0) * d, row(block, 1 + 3 * l, i, a0), features + (i - a0) * d, l,
                  i);
      fill(projected, A(0), count * d);
      multiply(projected, d, normed, d, 1, lin_[l], d, count, d, d);
      with_head_channels([&]<int C>() { attend<C>(block, l, a0, a1); });
    }
    A* last = row(block, 1 + 3 * layers, a0, a0);
    load(last, features, count * d);
    A* query_weights = query_weights_of(block, a0, a0);
    fill(query_weights, A(0), count * scores);
    multiply(query_weights, scores, last, d, 1, transposed_query_.get(), scores, count, d, scores);
    for (i64 m = m0; m < m1; ++m) {
      const i64 atoms = ptr_[m + 1] - ptr_[m];
      A* weights = query_weights + (ptr_[m] - a0) * scores;
      const A* x = last + (ptr_[m] - a0) * d;
      softmax(weights, atoms);
      A* pooled = states(args.pooled) + m * (scores + 1) * d;
      fill(pooled, A(0), (scores + 1) * d);
      multiply(pooled, d, weights, 1, scores, x, d, scores, atoms, d);
      for (i64 i = 0; i < atoms; ++i) add(pooled + scores * d, x + i * d, d);
    }
  }

  void score_edges(A* to, i64 a0, i64 a1) const {
    const i64 size = layers * lanes;
    for (i64 k = rowptr_[a0]; k < rowptr_[a1]; ++k, to += size) {
      fill(to, A(0), size);
      const A* attr = edge_attr_ + edge_[k] * fb;
      for (i64 f = 0; f < fb; ++f)
        if (attr[f] != 0) axpy<0>(to, attr[f], fold_.data() + f * size, size);
    }
  }

  // Compute the layer norm of an atom, and store the result before it is scaled and shifted.
  void normalise(A* to, A* centred, const A* x, i64 l, i64 atom) const {
    const A mean = sum_of<0, A>(d, [=](i64 k) { return x[k]; }) / A(d);
    const A variance = sum_of<0, A>(d, [=](i64 k) { return (x[k] - mean) * (x[k] - mean); }) / A(d);
    const A inverse = 1 / std::sqrt(variance + A(epsilon));
    if (args.inverse_std) states(args.inverse_std)[l * n + atom] = inverse;
    const A *weight = layer(l, LayerPart::norm_weight), *bias = layer(l, LayerPart::norm_bias);
#pragma omp simd
    for (i64 k = 0; k < d; ++k) {
      const A value = (x[k] - mean) * inverse;
      centred[k] = value, to[k] = value * weight[k] + bias[k];
    }
  }

  // Call function.template operator()<C>(), where C is the number of channels per head if it is a
  // common one, otherwise 0.
  template <class Function> void with_head_channels(const Function& function) const {
#ifdef GATTN_FIXED_CHANNELS
    if constexpr (sizeof(A) == 4) switch (c) {
        case 8: return function.template operator()<8>();
        case 16: return function.template operator()<16>();
        case 32: return function.template operator()<32>();
      }
#endif
    function.template operator()<0>();
  }

  // Add ELU(attention along the bonds) to the features of the block.
  template <int C> [[gnu::noinline]] void attend(Block& block, i64 l, i64 a0, i64 a1) {
    const i64 size = layers * lanes, e0 = rowptr_[a0];
    const A* projected = row(block, 2 + 3 * l, a0, a0);
    A *queries = block.queries.get(), *keys = queries + (a1 - a0) * lanes;
    fill(queries, A(0), 2 * (a1 - a0) * lanes);
    for (i64 i = 0; i < a1 - a0; ++i) {
      head_dots<C>(queries + i * lanes, layer(l, LayerPart::att_dst), projected + i * d, h, c);
      head_dots<C>(keys + i * lanes, layer(l, LayerPart::att_src), projected + i * d, h, c);
    }
    const A* edge_scores = block.edge_scores.get() + l * lanes;
    A* weights = block.weights.get();
    for (i64 i = a0; i < a1; ++i) {
      const i64 first = rowptr_[i], degree = rowptr_[i + 1] - first;
      A *stored = weights_of(block, l, i, a0), *loop = stored + degree * lanes;
      const A *own = queries + (i - a0) * lanes, *edges = edge_scores + (first - e0) * size;
      fill(loop, A(0), lanes);
      for (i64 k = 0; k < degree; ++k) {
        const A *key = keys + (source_[first + k] - a0) * lanes, *edge = edges + k * size;
        A* to = stored + k * lanes;
        for_lanes(lanes, [=](i64 x) { to[x] = own[x] + key[x] + edge[x], loop[x] += edge[x]; });
      }
      const A share = degree ? 1 / A(degree) : A(0), *key = keys + (i - a0) * lanes;
      for_lanes(lanes, [=](i64 x) { loop[x] = own[x] + key[x] + loop[x] * share; });
      softmax_of_edges(weights, stored, degree + 1);
      A* out = row(block, 3 + 3 * l, i, a0);
      add_rows<C, A>(
          out, true, degree + 1, h, c, [&](i64 k) { return weights + k * lanes; },
          [&](i64 k) { return projected + ((k < degree ? source_[first + k] : i) - a0) * d; },
          [&](i64 x) { return x * width<C>(c); });
      const A* bias = layer(l, LayerPart::conv_bias);
      A* features = block.features.get() + (i - a0) * d;
#pragma omp simd
      for (i64 k = 0; k < d; ++k) {
        const A value = out[k] + bias[k], exponential = exp_below(value < 0 ? value : A(0)) - 1;
        out[k] = value > 0 ? value : value != value ? value : exponential;
        features[k] += out[k];
      }
    }
  }

  // Replace the scores of `count` edges by weights, and also write the weights to `weights`.
  void softmax_of_edges(A* __restrict weights, A* __restrict scores_of_edges, i64 count) const {
    for (i64 x = 0; x < lanes; x += lane) {
      A most[lane], total[lane];
      for (i64 u = 0; u < lane; ++u) most[u] = -infinity<A>, total[u] = 0;
      for (i64 k = 0; k < count; ++k) {
        A *score = scores_of_edges + k * lanes + x, *to = weights + k * lanes + x;
#pragma omp simd
        for (i64 u = 0; u < lane; ++u) {
          // Infinite scores become NaN, because -inf would remove an edge.
          const A value = score[u] + 0 * score[u];
          score[u] = value, to[u] = value > 0 ? value : A(slope) * value;
          most[u] = to[u] > most[u] ? to[u] : most[u];
        }
      }
      for (i64 k = 0; k < count; ++k) {
        A* to = weights + k * lanes + x;
#pragma omp simd
        for (i64 u = 0; u < lane; ++u) to[u] = exp_below(to[u] - most[u]), total[u] += to[u];
      }
      for (i64 k = 0; k < count; ++k) {
        A *score = scores_of_edges + k * lanes + x, *to = weights + k * lanes + x;
#pragma omp simd
        for (i64 u = 0; u < lane; ++u) {
          to[u] /= total[u];
          score[u] = score[u] > 0 ? to[u] : -to[u];
        }
      }
    }
  }

  // Compute the softmax over the atoms of a molecule, for each query and head.
  void softmax(A* __restrict weights, i64 atoms) const {
    for (i64 y = 0; y < scores; ++y) {
      A most = -infinity<A>, total = 0;
      for (i64 i = 0; i < atoms; ++i) {
        const A value = weights[i * scores + y];
        most = value > most ? value : most;
      }
      for (i64 i = 0; i < atoms; ++i) {
        A& value = weights[i * scores + y];
        value = exp_below(value + 0 * value - most), total += value;
      }
      for (i64 i = 0; i < atoms; ++i) weights[i * scores + y] /= total;
    }
  }

  void forward_of_head(i64 m0, i64 m1) {
    const i64 count = m1 - m0;
    A* pooled = states(args.pooled) + m0 * (scores + 1) * d;
    A* values = states(args.values) + m0 * q * d;
    A* input = states(args.head_input) + m0 * all_inputs;
    A* hidden = states(args.hidden) + m0 * d;
    fill(values, A(0), count * q * d);
    for (i64 k = 0; k < q; ++k)
      for (i64 x = 0; x < q; ++x)
        multiply(values + k * d + x * cq, q * d, pooled + (k * q + x) * d, (scores + 1) * d, 1,
                 value_ + x * cq, d, count, d, cq);
    fill(input, A(0), count * all_inputs);
    for (i64 k = 0; k < q; ++k)
      multiply(input + k * d, all_inputs, values + k * d, q * d, 1, out_, d, count, d, d);
    multiply(input + q * d, all_inputs, pooled + scores * d, (scores + 1) * d, 1, project_, d,
             count, d, d);
    const A *extra = static_cast<const A*>(args.extra_descriptors) + m0 * args.extra,
            *out_bias = tail(TailPart::out_bias), *project_bias = tail(TailPart::project_bias);
    for (i64 m = 0; m < count; ++m) {
      A* to = input + m * all_inputs;
      const A atoms = A(ptr_[m0 + m + 1] - ptr_[m0 + m]);
      // A molecule without atoms has no attended atom.
      for (i64 k = 0; k < q; ++k)
        for (i64 x = 0; x < d; ++x) to[k * d + x] = atoms > 0 ? to[k * d + x] + out_bias[x] : A(0);
      for (i64 x = 0; x < d; ++x)
        to[q * d + x] = (to[q * d + x] + atoms * project_bias[x]) / A(atoms_scale);
      for (i64 x = 0; x < args.extra; ++x) to[inputs + x] = extra[m * args.extra + x];
      load(hidden + m * d, tail(TailPart::hidden_bias), d);
    }
    multiply(hidden, d, input, all_inputs, 1, hidden_, d, count, all_inputs, d);
    for (i64 k = 0; k < count * d; ++k) hidden[k] = hidden[k] < 0 ? 0 : hidden[k];
    A* out = states(args.out) + m0 * t;
    for (i64 m = 0; m < count; ++m) load(out + m * t, tail(TailPart::last_bias), t);
    multiply(out, t, hidden, d, 1, last_, t, count, d, t);
  }

  static void add_columns(A* to, const A* from, i64 rows, i64 columns, i64 stride) {
    for (i64 m = 0; m < rows; ++m) add(to, from + m * stride, columns);
  }

  void backward_of_head(const Gradients& to, i64 m0, i64 m1, A* grad_pooled, A* grad_values,
                        A* grad_input, A* grad_hidden) {
    const i64 count = m1 - m0, pooled_size = (scores + 1) * d;
    const A *grad = static_cast<const A*>(args.grad) + m0 * t,
            *hidden = states(args.hidden) + m0 * d,
            *input = states(args.head_input) + m0 * all_inputs,
            *values = states(args.values) + m0 * q * d,
            *pooled = states(args.pooled) + m0 * pooled_size;
    grad_pooled += m0 * pooled_size, grad_values += m0 * q * d;
    grad_input += m0 * all_inputs, grad_hidden += m0 * d;
    fill(grad_pooled, A(0), count * pooled_size), fill(grad_values, A(0), count * q * d);
    fill(grad_input, A(0), count * all_inputs), fill(grad_hidden, A(0), count * d);
    const auto of = [&](TailPart part) { return gradient(to, of_tail(part)); };

    add_columns(of(TailPart::last_bias), grad, count, t, t);
    multiply(of(TailPart::last_weight), d, grad, 1, t, hidden, d, t, count, d);
    multiply(grad_hidden, d, grad, t, 1, tail(TailPart::last_weight), d, count, t, d);
    for (i64 k = 0; k < count * d; ++k)
      if (!(hidden[k] > 0)) grad_hidden[k] = 0;
    add_columns(of(TailPart::hidden_bias), grad_hidden, count, d, d);
    multiply(of(TailPart::hidden_weight), all_inputs, grad_hidden, 1, d, input, all_inputs, d,
             count, all_inputs);
    multiply(grad_input, all_inputs, grad_hidden, d, 1, tail(TailPart::hidden_weight), all_inputs,
             count, d, all_inputs);

    for (i64 m = 0; m < count; ++m) {
      A* row = grad_input + m * all_inputs;
      const A atoms = A(ptr_[m0 + m + 1] - ptr_[m0 + m]);
      if (atoms == 0) fill(row, A(0), q * d);
      scale_by<0>(row + q * d, 1 / A(atoms_scale), d);
      axpy<0>(of(TailPart::project_bias), atoms, row + q * d, d);
    }
    const A* grad_project = grad_input + q * d;
    multiply(of(TailPart::project), d, grad_project, 1, all_inputs, pooled + scores * d,
             pooled_size, d, count, d);
    multiply(grad_pooled + scores * d, pooled_size, grad_project, all_inputs, 1,
             tail(TailPart::project), d, count, d, d);
    for (i64 k = 0; k < q; ++k) {
      const A* grad_out = grad_input + k * d;
      add_columns(of(TailPart::out_bias), grad_out, count, d, all_inputs);
      multiply(of(TailPart::lin_out), d, grad_out, 1, all_inputs, values + k * d, q * d, d, count,
               d);
      multiply(grad_values + k * d, q * d, grad_out, all_inputs, 1, tail(TailPart::lin_out), d,
               count, d, d);
      for (i64 x = 0; x < q; ++x) {
        const i64 part = (k * q + x) * d, at = k * d + x * cq;
        multiply(of(TailPart::lin_value) + x * cq * d, d, grad_values + at, 1, q * d, pooled + part,
                 pooled_size, cq, count, d);
        multiply(grad_pooled + part, pooled_size, grad_values + at, q * d, 1,
                 tail(TailPart::lin_value) + x * cq * d, d, count, cq, d);
      }
    }
  }

  void backward_of_block(Block& block, const Gradients& to, const A* grad_pooled, i64 m0, i64 m1) {
    const i64 a0 = ptr_[m0], a1 = ptr_[m1], count = a1 - a0, size = layers * lanes;
    A *grad = block.features.get(), *grad_scores = block.query_weights.get(),
      *transposed = block.transposed.get();
    const A *last = row(block, 1 + 3 * layers, a0, a0),
            *query_weights = query_weights_of(block, a0, a0);
    fill(grad_scores, A(0), count * scores);
    for (i64 m = m0; m < m1; ++m) {
      const i64 atoms = ptr_[m + 1] - ptr_[m], at = ptr_[m] - a0;
      const A* of_molecule = grad_pooled + m * (scores + 1) * d;
      for (i64 i = 0; i < atoms; ++i) load(grad + (at + i) * d, of_molecule + scores * d, d);
      transpose(transposed, of_molecule, scores, d, scores);
      A* grad_weights = grad_scores + at * scores;
      const A* weights = query_weights + at * scores;
      multiply(grad_weights, scores, last + at * d, d, 1, transposed, scores, atoms, d, scores);
      for (i64 y = 0; y < scores; ++y) {
        A mean = 0;
        for (i64 i = 0; i < atoms; ++i)
          mean += weights[i * scores + y] * grad_weights[i * scores + y];
        for (i64 i = 0; i < atoms; ++i) {
          A& value = grad_weights[i * scores + y];
          value = weights[i * scores + y] * (value - mean);
        }
      }
      multiply(grad + at * d, d, weights, scores, 1, of_molecule, d, atoms, scores, d);
    }
    multiply(grad, d, grad_scores, scores, 1, query_.data(), d, count, scores, d);
    multiply(to.query, d, grad_scores, 1, scores, last, d, scores, count, d);

    A* grad_edges = block.edge_scores.get();
    for (i64 l = layers - 1; l >= 0; --l) backward_of_layer(block, to, l, a0, a1);
    for (i64 k = rowptr_[a0]; k < rowptr_[a1]; ++k, grad_edges += size) {
      const A* attr = edge_attr_ + edge_[k] * fb;
      for (i64 f = 0; f < fb; ++f)
        if (attr[f] != 0) axpy<0>(to.fold + f * size, attr[f], grad_edges, size);
    }
    A* grad_bias = gradient(to, 1);
    for (i64 i = a0; i < a1; ++i) {
      const A* x = row(block, 0, i, a0);
      A* row_grad = grad + (i - a0) * d;
#pragma omp simd
      for (i64 k = 0; k < d; ++k) row_grad[k] = x[k] > 0 ? row_grad[k] : A(0);
      add(grad_bias, row_grad, d);
      for (i64 k = 0; k < fa; ++k)
        if (const A value = x_[i * fa + k]; value != 0)
          axpy<0>(to.atoms + k * d, value, row_grad, d);
    }
  }

  // Add the gradients of one layer, and convert the gradient of its result to the gradient of its
  // input.
  void backward_of_layer(Block& block, const Gradients& to, i64 l, i64 a0, i64 a1) {
    const i64 count = a1 - a0;
    A *grad = block.features.get(), *grad_out = block.outputs.get(),
      *grad_value = block.values.get(), *normed = block.normed.get();
    const A* activated = row(block, 3 + 3 * l, a0, a0);
#pragma omp simd
    for (i64 k = 0; k < count * d; ++k)
      grad_out[k] = grad[k] * (activated[k] > 0 ? A(1) : activated[k] + 1);
    const auto of = [&](LayerPart part) { return gradient(to, of_layer(l, part)); };
    add_columns(of(LayerPart::conv_bias), grad_out, count, d, d);
    with_head_channels([&]<int C>() { backward_of_attention<C>(block, to, l, a0, a1); });

    const A *centred = row(block, 1 + 3 * l, a0, a0), *weight = layer(l, LayerPart::norm_weight),
            *bias = layer(l, LayerPart::norm_bias);
    for (i64 i = 0; i < count; ++i)
#pragma omp simd
      for (i64 k = 0; k < d; ++k) normed[i * d + k] = centred[i * d + k] * weight[k] + bias[k];
    multiply(of(LayerPart::lin), d, grad_value, 1, d, normed, d, d, count, d);
    A* grad_normed = grad_out;  // the gradient of the attention is not needed any more
    fill(grad_normed, A(0), count * d);
    multiply(grad_normed, d, grad_value, d, 1, layer(l, LayerPart::lin), d, count, d, d);
    A *grad_weight = of(LayerPart::norm_weight), *grad_bias = of(LayerPart::norm_bias);
    for (i64 i = 0; i < count; ++i) {
      const A *value = centred + i * d, inverse = states(args.inverse_std)[l * n + a0 + i];
      A *from = grad_normed + i * d, *result = grad + i * d;
#pragma omp simd
      for (i64 k = 0; k < d; ++k) {
        grad_weight[k] += from[k] * value[k], grad_bias[k] += from[k];
        from[k] *= weight[k];
      }
      const A mean = sum_of<0, A>(d, [=](i64 k) { return from[k]; }) / A(d);
      const A slant = sum_of<0, A>(d, [=](i64 k) { return from[k] * value[k]; }) / A(d);
#pragma omp simd
      for (i64 k = 0; k < d; ++k) result[k] += inverse * (from[k] - mean - value[k] * slant);
    }
  }

  template <int C> [[gnu::noinline]] void backward_of_attention(Block& block, const Gradients& to,
                                                                i64 l, i64 a0, i64 a1) {
    const i64 count = a1 - a0, size = layers * lanes, e0 = rowptr_[a0];
    const A *grad_out = block.outputs.get(), *projected = row(block, 2 + 3 * l, a0, a0);
    A *grad_value = block.values.get(), *queries = block.queries.get(),
      *keys = queries + count * lanes, *edge_scores = block.edge_scores.get() + l * lanes,
      *scores_of_atom = block.weights.get();
    fill(grad_value, A(0), count * d), fill(queries, A(0), 2 * count * lanes);
    for (i64 i = a0; i < a1; ++i) {
      const i64 first = rowptr_[i], degree = rowptr_[i + 1] - first;
      const A *weights = weights_of(block, l, i, a0), *from = grad_out + (i - a0) * d;
      const auto atom = [&](i64 k) { return (k < degree ? source_[first + k] : i) - a0; };
      fill(scores_of_atom, A(0), (degree + 1) * lanes);
      for (i64 k = 0; k <= degree; ++k) {
        head_dots<C>(scores_of_atom + k * lanes, from, projected + atom(k) * d, h, c);
        A* value = grad_value + atom(k) * d;
        const A* weight = weights + k * lanes;
        for (i64 x = 0; x < h; ++x)
          axpy<C>(value + x * width<C>(c), std::abs(weight[x]), from + x * width<C>(c), c);
      }
      for (i64 x = 0; x < lanes; x += lane) {
        A mean[lane] = {};
        for (i64 k = 0; k <= degree; ++k)
          for (i64 u = 0; u < lane; ++u)
            mean[u] += std::abs(weights[k * lanes + x + u]) * scores_of_atom[k * lanes + x + u];
        for (i64 k = 0; k <= degree; ++k) {
          const A* weight = weights + k * lanes + x;
          A *score = scores_of_atom + k * lanes + x, *key = keys + atom(k) * lanes + x,
            *own = queries + (i - a0) * lanes + x;
          for (i64 u = 0; u < lane; ++u) {
            const A steep = std::signbit(weight[u]) ? A(slope) : A(1);
            score[u] = steep * std::abs(weight[u]) * (score[u] - mean[u]);
            own[u] += score[u], key[u] += score[u];
          }
        }
      }
      const A share = degree ? 1 / A(degree) : A(0), *loop = scores_of_atom + degree * lanes;
      for (i64 k = 0; k < degree; ++k) {
        A* edge = edge_scores + (first - e0 + k) * size;
        const A* score = scores_of_atom + k * lanes;
        for_lanes(lanes, [=](i64 x) { edge[x] = score[x] + loop[x] * share; });
      }
    }
    A *grad_dst = gradient(to, of_layer(l, LayerPart::att_dst)),
      *grad_src = gradient(to, of_layer(l, LayerPart::att_src));
    const A *dst = layer(l, LayerPart::att_dst), *src = layer(l, LayerPart::att_src);
    for (i64 i = 0; i < count; ++i)
      for (i64 x = 0; x < h; ++x) {
        const i64 at = x * width<C>(c);
        A* value = grad_value + i * d + at;
        axpy<C>(value, queries[i * lanes + x], dst + at, c);
        axpy<C>(value, keys[i * lanes + x], src + at, c);
        axpy<C>(grad_dst + at, queries[i * lanes + x], projected + i * d + at, c);
        axpy<C>(grad_src + at, keys[i * lanes + x], projected + i * d + at, c);
      }
  }

  // Convert the sums over all molecules to gradients of the parameters.
  void finish(const Gradients& to) {
    transpose(gradient(to, 0), to.atoms, fa, d, fa);
    for (i64 l = 0; l < layers; ++l) {
      const A *vector = layer(l, LayerPart::att_edge), *weight = layer(l, LayerPart::lin_edge);
      A *grad_vector = gradient(to, of_layer(l, LayerPart::att_edge)),
        *grad_weight = gradient(to, of_layer(l, LayerPart::lin_edge));
      for (i64 x = 0; x < d; ++x)
        for (i64 k = 0; k < fb; ++k) {
          const A fold = to.fold[(k * layers + l) * lanes + x / c];
          grad_vector[x] += fold * weight[x * fb + k];
          grad_weight[x * fb + k] += fold * vector[x];
        }
    }
    const A *vectors = tail(TailPart::query), *weight = tail(TailPart::lin_key);
    A *grad_vectors = gradient(to, of_tail(TailPart::query)),
      *grad_weight = gradient(to, of_tail(TailPart::lin_key));
    for (i64 k = 0; k < q; ++k)
      for (i64 x = 0; x < d; ++x) {
        const A* row = to.query + (k * q + x / cq) * d;
        grad_vectors[k * d + x] += query_scale() * dot<0>(row, weight + x * d, d);
        axpy<0>(grad_weight + x * d, query_scale() * vectors[k * d + x], row, d);
      }
  }

  const A *x_, *edge_attr_;
  const i64* ptr_;
  // Offsets, sources and indices of the edges, which are sorted by destination.
  std::int32_t *rowptr_, *source_, *edge_;
  i64 largest_ = block_atoms, max_edges_ = 0, max_degree_ = 0;
  Scratch<A> transposed_, transposed_query_;
  const A *atoms_ = nullptr, *value_ = nullptr, *out_ = nullptr, *project_ = nullptr,
          *hidden_ = nullptr, *last_ = nullptr;
  std::vector<const A*> lin_;
  Buffer<A> fold_, query_;
};

template <class Function> void with_network(const MoleculeNetworkArgs& args, Function&& function) {
  if (args.dtype == Dtype::f64)
    function(MoleculeNetwork<double>(args));
  else
    function(MoleculeNetwork<float>(args));
}

void molecule_network(const MoleculeNetworkArgs& args) {
  with_network(args, [](auto&& network) { network.forward(); });
}
void molecule_network_backward(const MoleculeNetworkArgs& args) {
  with_network(args, [](auto&& network) { network.backward(); });
}

}  // namespace

std::span<const Kernel> molecule_network_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(molecule_network, MoleculeNetworkArgs),
      GATTN_KERNEL(molecule_network_backward, MoleculeNetworkArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
