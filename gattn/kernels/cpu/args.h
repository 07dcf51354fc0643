// Arguments of the kernels. Each C++ file of kernels (a family) declares its argument struct as a
// list of fields, and exports a table of its kernels:
//
//   #define EXAMPLE_FIELDS(FIELD) GATTN_LAYOUT_FIELDS(FIELD) FIELD(Rows, value) FIELD(void*, out)
//   GATTN_ARGS(ExampleArgs, EXAMPLE_FIELDS);
//
// The table contains the names and kinds of the fields. Python packs the values in this order: 8
// bytes for each field, 16 for Rows, so that the struct has no padding. Absent tensors are null
// pointers. A field has the name that the Family in Python declares; a name that exists only on one
// side is an error.
//
//   FIELD(Rows, value)              an input with one row per node or edge
//   FIELD(void*, out)               an output
//   FIELD(double, negative_slope)   a setting
//   FIELD(i64, heads)               a length
//
// GATTN_LAYOUT_FIELDS contains the layout of the edges, and GATTN_TERMS_FIELDS the
// bias, the weights and the dropout. Softmax, the division of work by edges, hubs, dropout and the
// sums are shared code; a family adds the score of a range of edges and its derivative.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>

namespace gattn {

using i64 = std::int64_t;

enum class Dtype : i64 { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };

// This struct describes a tensor of rows. The rows may have any stride, but the elements within a
// row are contiguous.
struct Rows {
  void* data;
  i64 stride;  // in numbers of elements, not bytes
};

struct Field {
  const char *name, *kind;
};

struct Kernel {
  const char* name;
  std::span<const Field> fields;
  std::size_t size;  // size of the argument struct in bytes
  void (*run)(const void* packed);
};

template <class T> consteval const char* kind_of() {
  static_assert(sizeof(T) == (std::is_same_v<T, Rows> ? 16 : 8));
  if (std::is_same_v<T, Rows>) return "rows";
  if (std::is_pointer_v<T>) return "pointer";
  return std::is_floating_point_v<T> ? "float" : "int";
}

#define GATTN_MEMBER(type, name) type name;
#define GATTN_FIELD(type, name) Field{#name, kind_of<type>()},
#define GATTN_ARGS(Args, FIELDS)                             \
  struct Args {                                              \
    FIELDS(GATTN_MEMBER)                                     \
    static constexpr Field fields[] = {FIELDS(GATTN_FIELD)}; \
  }

// The following fields are arguments of the kernels in several C++ files.
// clang-format off
#define GATTN_LAYOUT_FIELDS(FIELD)                                               \
  FIELD(const void*, rowptr) FIELD(const void*, col) FIELD(const void*, perm)    \
  FIELD(const void*, colptr) FIELD(const void*, row) FIELD(const void*, csr2csc) \
  FIELD(i64, n) FIELD(i64, m) FIELD(i64, e) FIELD(i64, is_int64)
#define GATTN_DROPOUT_FIELDS(FIELD) FIELD(const i64*, seed) FIELD(double, dropout)
#define GATTN_TERMS_FIELDS(FIELD)                                                       \
  GATTN_DROPOUT_FIELDS(FIELD)                                                           \
  FIELD(Rows, attn_bias) FIELD(Rows, edge_weight) FIELD(i64, bias_heads)                     \
  FIELD(void*, grad_attn_bias) FIELD(void*, grad_edge_weight)
// clang-format on

// Return an entry of a kernel table: the name of a kernel and a function that unpacks its arguments
// and runs it.
template <class Args> Kernel kernel_entry(const char* name, void (*run)(const void*)) {
  static_assert(std::is_trivially_copyable_v<Args> && std::is_standard_layout_v<Args>);
  return {name, Args::fields, sizeof(Args), run};
}

template <class Args, void (*kernel)(const Args&)> void run_packed(const void* packed) {
  Args args;
  std::memcpy(&args, packed, sizeof(Args));
  kernel(args);
}

#define GATTN_KERNEL(name, Args) kernel_entry<Args>(#name, run_packed<Args, name>)

// This object contains the tables of all kernels that were compiled for one instruction set.
struct KernelSet {
  const char* isa;
  std::span<const Kernel> kernels;
  std::uint64_t (*checksum)(const void* data, i64 num_bytes);
};

}  // namespace gattn
