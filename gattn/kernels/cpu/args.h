// What the launchers hand to the kernels: raw pointers and sizes. Pointers to absent tensors are
// null. Row strides are in elements; within a row, heads and channels are contiguous. `out_acc` is the
// sum of the values before anything is added and before it is rounded: forward writes it where that
// is not out and backward will ask, backward reads it for <dO, O>.
#pragma once

#include <cstdint>

namespace gattn {

using i64 = std::int64_t;

enum class Dtype { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

struct LayoutArgs {
  const void *rowptr, *col, *perm, *colptr, *row, *csr2csc;
  i64 n, m, e;
  bool wide;  // int64 indices
};

struct DropoutArgs {
  const i64* seed;
  double p;
};

struct Rows {
  void* data;
  i64 stride;
};

struct AdditiveArgs {
  Dtype dtype;
  LayoutArgs layout;
  DropoutArgs dropout;
  i64 heads, value_heads, channels;
  double negative_slope;
  Rows query_score, key_score, value, edge_score;
  void *out, *out_acc, *row_max, *row_sum, *out_pos_centered;
  // backward
  Rows grad_out;
  void *grad_query_score, *grad_key_score, *grad_value, *grad_edge_score;
};

struct DotProductArgs {
  Dtype dtype;
  LayoutArgs layout;
  DropoutArgs dropout;
  i64 heads, channels, value_channels, features;
  double scale;
  Rows query, key, value, bias, edge_attr, edge_proj;  // edge_proj: [h, c, d], contiguous
  void *out, *out_acc, *edge_out, *row_max, *row_sum;
  // backward
  Rows grad_out;
  void *grad_query, *grad_key, *grad_value, *grad_bias, *grad_edge_attr, *grad_edge_proj;
  void *alpha, *grad_score;  // hand-over, [e, h] in CSR order
};

struct MLPArgs {
  Dtype dtype;
  LayoutArgs layout;
  DropoutArgs dropout;
  i64 heads, channels, value_channels, features;
  bool tanh;
  double negative_slope;
  Rows query, key, value, weight, edge_attr, edge_proj;  // edge_proj transposed: [d, h * c]
  void *out, *out_acc, *row_max, *row_sum, *score;
  // backward
  Rows grad_out;
  void *grad_query, *grad_key, *grad_value, *grad_weight, *grad_edge_attr, *grad_edge_proj;
  void *alpha, *grad_score;
};

struct EdgeArgs {
  Dtype dtype;
  LayoutArgs layout;
  i64 heads, value_heads, channels;
  bool transposed;
  Rows left, right;  // what each function says of them
  void* out;
};

struct NodeArgs {
  Dtype dtype;
  i64 rows, heads, channels, count;
  Rows value, vectors;
  void *scores, *grad_value, *grad_vectors;
};

struct ElementArgs {
  Dtype dtype;
  DropoutArgs dropout;
  i64 count;
  void *x, *out;
};

// One table of kernels per instruction set.
struct Kernels {
  const char* isa;
  void (*additive_forward)(const AdditiveArgs&);
  void (*additive_backward)(const AdditiveArgs&);
  void (*dot_product_forward)(const DotProductArgs&);
  void (*dot_product_backward)(const DotProductArgs&);
  void (*mlp_forward)(const MLPArgs&);
  void (*mlp_backward)(const MLPArgs&);
  void (*mlp_score)(const MLPArgs&);
  void (*edge_softmax)(const EdgeArgs&);
  void (*edge_softmax_backward)(const EdgeArgs&);
  void (*aggregate)(const EdgeArgs&);
  void (*edge_dot)(const EdgeArgs&);
  double (*row_gather)(const EdgeArgs&);
  void (*node_scores)(const NodeArgs&);
  void (*node_scores_backward)(const NodeArgs&);
  void (*dropout)(const ElementArgs&);
};

}  // namespace gattn
