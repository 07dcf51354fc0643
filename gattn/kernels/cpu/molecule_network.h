// This file declares the arguments and sizes of the kernels of the molecule network; see
// molecule_network.cpp.
#pragma once

#include <thread>
#include <vector>

#include "dispatch.h"
#include "memory.h"

namespace gattn::GATTN_ISA {

// The states of a forward pass that a backward pass needs are null pointers if no gradient is
// computed. The parameters are pointers to contiguous tensors, in the order of the enums below.
// clang-format off
#define MOLECULE_NETWORK_FIELDS(FIELD)                                                      \
  FIELD(Dtype, dtype)                                                                       \
  FIELD(i64, num_atoms) FIELD(i64, num_edges) FIELD(i64, num_molecules)                     \
  FIELD(i64, atom_features) FIELD(i64, edge_features) FIELD(i64, width) FIELD(i64, heads)   \
  FIELD(i64, layers) FIELD(i64, queries) FIELD(i64, extra) FIELD(i64, targets)              \
  FIELD(i64, threads)                                                                       \
  FIELD(const void*, x) FIELD(const i64*, source) FIELD(const i64*, destination)            \
  FIELD(const void*, edge_attr) FIELD(const i64*, ptr) FIELD(const void*, extra_descriptors) \
  FIELD(const i64*, parameters) FIELD(void*, out)                                           \
  FIELD(std::int32_t*, edges) FIELD(void*, rows) FIELD(void*, inverse_std)                  \
  FIELD(void*, edge_weights) FIELD(void*, query_weights) FIELD(void*, pooled)               \
  FIELD(void*, values) FIELD(void*, head_input) FIELD(void*, hidden)                        \
  FIELD(const void*, grad) FIELD(void*, gradients)
// clang-format on
GATTN_ARGS(MoleculeNetworkArgs, MOLECULE_NETWORK_FIELDS);

// Number of parts into which a batch is divided; all parts have about the same number of atoms.
constexpr i64 num_shares = 2;
// Number of atoms per block; the features of a block fit into the CPU cache.
constexpr i64 block_atoms = 96;

// The parameters are two tensors for the atoms, eight for each layer, and eleven for the readout
// and the head.
enum LayerPart { norm_weight, norm_bias, lin, att_src, att_dst, lin_edge, att_edge, conv_bias };
enum TailPart {
  query,
  lin_key,
  lin_value,
  lin_out,
  out_bias,
  project,
  project_bias,
  hidden_weight,
  hidden_bias,
  last_weight,
  last_bias
};
constexpr i64 layer_parts = 8, tail_parts = 11;

// This struct contains the sizes of a network and of a batch.
template <class A> struct MoleculeSizes {
  explicit MoleculeSizes(const MoleculeNetworkArgs& args)
      : args(args),
        n(args.num_atoms),
        g(args.num_molecules),
        fa(args.atom_features),
        fb(args.edge_features),
        d(args.width),
        h(args.heads),
        c(d / h),
        lanes(lanes_of(h)),
        layers(args.layers),
        q(args.queries),
        scores(q * q),
        cq(d / q),
        inputs((q + 1) * d),
        all_inputs(inputs + args.extra),
        t(args.targets) {
    const auto add = [&](i64 size) { offsets.push_back(offsets.back() + size); };
    add(d * fa), add(d);
    for (i64 l = 0; l < layers; ++l)
      for (i64 size : {d, d, d * d, d, d, d * fb, d, d}) add(size);
    for (i64 size : {q * d, d * d, d * d, d * d, d, d * d, d, d * all_inputs, d, t * d, t})
      add(size);
  }

  i64 of_layer(i64 l, LayerPart part) const { return 2 + layer_parts * l + part; }
  i64 of_tail(TailPart part) const { return 2 + layer_parts * layers + part; }
  const A* parameter(i64 number) const {
    return reinterpret_cast<const A*>(args.parameters[number]);
  }
  const A* layer(i64 l, LayerPart part) const { return parameter(of_layer(l, part)); }
  const A* tail(TailPart part) const { return parameter(of_tail(part)); }
  i64 num_parameters() const { return offsets.back(); }

  const MoleculeNetworkArgs& args;
  // Numbers of atoms, molecules, features, hidden features, heads, channels, layers, queries,
  // scores of an atom in the readout, channels of a query's head, inputs of the head without and
  // with descriptors, and targets.
  i64 n, g, fa, fb, d, h, c, lanes, layers, q, scores, cq, inputs, all_inputs, t;
  std::vector<i64> offsets{0};  // offset of each parameter in the gradient vector
};

// Write the transposed matrix of `from`, [rows, columns]. Blocks of 16 x 16 stay in the cache.
template <class A>
void transpose(A* __restrict to, const A* __restrict from, i64 rows, i64 columns, i64 to_stride) {
  for (i64 r = 0; r < rows; r += 16)
    for (i64 k = 0; k < columns; k += 16)
      for (i64 v = k; v < std::min(k + 16, columns); ++v)
        for (i64 u = r; u < std::min(r + 16, rows); ++u)
          to[v * to_stride + u] = from[u * columns + v];
}

// A share contains the molecules begin(s) to begin(s + 1) - 1. The division depends only on the
// batch.
template <class Offsets> i64 first_of_share(const Offsets* ptr, i64 molecules, i64 share) {
  const i64 atoms = ptr[molecules] * share / num_shares;
  if (share == num_shares) return molecules;
  return std::lower_bound(ptr, ptr + molecules, atoms) - ptr;
}

// Call work(share) for each share, in up to `threads` threads. New threads are started for each
// call. Unlike the threads of OpenMP, they never spin while they wait for work.
template <class Work> void for_each_share(i64 threads, const Work& work) {
  std::vector<std::thread> others;
  i64 share = 0;
  for (; share < std::min(threads, num_shares) - 1; ++share) try {
      others.emplace_back([&work, share] { work(share); });
    } catch (const std::system_error&) {
      // The system allows no more threads, so this thread does the work of the missing ones.
      break;
    }
  for (; share < num_shares; ++share) work(share);
  for (std::thread& other : others) other.join();
}

}  // namespace gattn::GATTN_ISA
