// These kernels compute scores of nodes, for GATConv and SuperGATConv: s_t[i] = <v_i, a_t> per
// head, for a small number of vectors a_t [h, c].
//
// Forward reads v once for all vectors. Backward computes dv_i = sum_t ds_t[i] a_t and da_t = sum_i
// ds_t[i] v_i; it reads v once and writes dv once. The number of partial sums over the nodes
// depends only on the number of nodes, so that any number of threads gives the same bits.
#include "dispatch.h"
#include "row_products.h"
#include "rows.h"

namespace gattn::GATTN_ISA {

namespace {

// clang-format off
#define NODE_FIELDS(FIELD)                                                             \
  FIELD(Dtype, dtype)                                                                  \
  FIELD(i64, num_nodes) FIELD(i64, num_vectors) FIELD(i64, heads) FIELD(i64, channels) \
  FIELD(Rows, value) FIELD(Rows, vectors) FIELD(void*, out)                            \
  FIELD(Rows, grad) FIELD(void*, grad_value) FIELD(void*, grad_vectors)
// clang-format on
GATTN_ARGS(NodeArgs, NODE_FIELDS);

constexpr i64 part_rows = 256;  // minimum number of nodes for each partial sum
constexpr i64 max_parts = 64;   // maximum number of partial sums

// Compute dot products like dot_rows, and store them as 16-bit numbers.
template <class T> void narrow_dots(T* to, const acc_t<T>* row, const T* const* rows, i64 count,
                                    i64 heads, i64 channels) {
  with_channels<T>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 t = 0; t < count; ++t)
      for (i64 x = 0; x < heads; ++x)
        to[t * heads + x] = narrow<T>(dot<C>(row + x * c, rows[t] + x * c, c));
  });
}

// Add the terms of one node to the gradient of its value and to the gradient of a vector: row_x +=
// g_x a_x and sum_x += g_x v_x for each head x. Shapes: g [h], row, a, sum and v [h, c].
template <class T, class A>
void add_node(A* row, A* sum, const T* g, const A* a, const T* v, i64 heads, i64 channels) {
  with_channels<T>(channels, [=]<int C>() {
    const i64 c = width<C>(channels);
    for (i64 x = 0; x < heads; ++x) {
      axpy<C>(row + x * c, wide(g[x]), a + x * c, c);
      axpy<C>(sum + x * c, wide(g[x]), v + x * c, c);
    }
  });
}

constexpr i64 block_rows = 16;  // number of nodes that are processed together

void node_scores(const NodeArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const i64 n = args.num_nodes, c = args.channels, heads = args.heads, size = heads * c;
    const Table<const T> value(args.value), vectors(args.vectors);
    const Buffer<A> wide_vectors(args.num_vectors * size);
    for (i64 t = 0; t < args.num_vectors; ++t)
      load(wide_vectors.data() + t * size, vectors[t], size);
    const i64 blocks = (n + block_rows - 1) / block_rows;
    for_each_row(blocks, block_rows * args.num_vectors * size, [&](i64 b) {
      const i64 first = b * block_rows, count = std::min(block_rows, n - first);
      const T* rows[block_rows];
      for (i64 i = 0; i < count; ++i) rows[i] = value[first + i];
      for (i64 t = 0; t < args.num_vectors; ++t) {
        T* to = static_cast<T*>(args.out) + (t * n + first) * heads;
        const A* a = wide_vectors.data() + t * size;
        if constexpr (std::is_same_v<T, A>)
          dot_rows<T>(to, heads, a, rows, nullptr, count, heads, c);
        else
          narrow_dots(to, a, rows, count, heads, c);
      }
    });
  });
}

void node_scores_backward(const NodeArgs& args) {
  dispatch(args.dtype, [&]<class T>() {
    using A = acc_t<T>;
    const i64 c = args.channels, heads = args.heads, size = heads * c, count = args.num_vectors;
    const Table<const T> value(args.value), vectors(args.vectors), grad(args.grad);
    const Buffer<A> wide_vectors(count * size);
    for (i64 t = 0; t < count; ++t) load(wide_vectors.data() + t * size, vectors[t], size);
    const i64 parts = std::clamp<i64>(args.num_nodes / part_rows, 1, max_parts);
    const Buffer<A> sums(parts * count * size);
    Allocation allocation;
#pragma omp parallel if (args.num_nodes * size * count > min_parallel_work)
    {
      Buffer<A> row;
      const i64 served = allocation.attempt([&] { row.resize(size); }) ? parts : 0;
#pragma omp for schedule(static)
      for (i64 part = 0; part < served; ++part)
        for (i64 i = args.num_nodes * part / parts; i < args.num_nodes * (part + 1) / parts; ++i) {
          fill(row.data(), A(0), size);
          for (i64 t = 0; t < count; ++t) {
            A* sum = sums.data() + (part * count + t) * size;
            add_node(row.data(), sum, grad[t] + i * heads, wide_vectors.data() + t * size, value[i],
                     heads, c);
          }
          store(static_cast<T*>(args.grad_value) + i * size, row.data(), size);
        }
    }
    allocation.check();
    for (i64 part = 1; part < parts; ++part)
      add(sums.data(), sums.data() + part * count * size, count * size);
    store(static_cast<T*>(args.grad_vectors), sums.data(), count * size);
  });
}

}  // namespace

std::span<const Kernel> node_kernels() {
  static const Kernel table[] = {
      GATTN_KERNEL(node_scores, NodeArgs),
      GATTN_KERNEL(node_scores_backward, NodeArgs),
  };
  return table;
}

}  // namespace gattn::GATTN_ISA
