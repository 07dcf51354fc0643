// The Python module: raw pointers in, the kernels of this machine's instruction set behind.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <omp.h>

#include <cstdint>

#include "args.h"
#include "layout.h"
#include "memory.h"

namespace nb = nanobind;
using namespace gattn;

namespace gattn {
#if defined(__x86_64__)
namespace x86_64_v2 { extern const Kernels kernels; }
namespace x86_64_v3 { extern const Kernels kernels; }
namespace x86_64_v4 { extern const Kernels kernels; }
#else
namespace native { extern const Kernels kernels; }
#endif
}  // namespace gattn

namespace {

using Pointer = std::uintptr_t;

const Kernels& choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return gattn::x86_64_v4::kernels;
  if (__builtin_cpu_supports("x86-64-v3")) return gattn::x86_64_v3::kernels;
  return gattn::x86_64_v2::kernels;
#else
  return gattn::native::kernels;
#endif
}

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

template <class T = void> T* at(Pointer p) { return reinterpret_cast<T*>(p); }

// Fields of the argument structs as Python sees them: pointers are integers, a tensor of rows is
// (pointer, row stride).
template <class Args> struct Binder {
  nb::class_<Args> cls;

  Binder(nb::module_& m, const char* name) : cls(m, name) { cls.def(nb::init<>()); }
  template <class V> Binder& value(const char* name, V Args::*field) {
    cls.def_rw(name, field);
    return *this;
  }
  template <class P> Binder& pointer(const char* name, P* Args::*field) {
    cls.def_prop_rw(
        name, [field](const Args& a) { return reinterpret_cast<Pointer>(a.*field); },
        [field](Args& a, Pointer p) { a.*field = at<P>(p); });
    return *this;
  }
  Binder& rows(const char* name, Rows Args::*field) {
    cls.def_prop_rw(
        name, [field](const Args& a) { return nb::make_tuple(Pointer((a.*field).data), (a.*field).stride); },
        [field](Args& a, const std::pair<Pointer, i64>& p) { a.*field = {at(p.first), p.second}; });
    return *this;
  }
  Binder& dtype() {
    cls.def_prop_rw("dtype", [](const Args& a) { return int(a.dtype); },
                    [](Args& a, int dtype) { a.dtype = Dtype(dtype); });
    return *this;
  }
  Binder& common() {
    return dtype().value("layout", &Args::layout).value("heads", &Args::heads).value("channels", &Args::channels);
  }
  Binder& dropout() {
    cls.def_prop_rw("dropout", [](const Args& a) { return nb::make_tuple(Pointer(a.dropout.seed), a.dropout.p); },
                    [](Args& a, const std::pair<Pointer, double>& d) { a.dropout = {at<const i64>(d.first), d.second}; });
    return *this;
  }
};

// Take the faults of fresh memory on all threads: threads that fill one huge page together wait for
// the one of them that faults.
void touch(char* data, i64 bytes) {
  constexpr i64 huge = 1 << 21;
#pragma omp parallel for schedule(static)
  for (i64 at = 0; at < bytes; at += huge) *static_cast<volatile char*>(data + at) = 0;
}

}  // namespace

#define POINTER(field) pointer(#field, &Args::field)
#define VALUE(field) value(#field, &Args::field)
#define ROWS(field) rows(#field, &Args::field)
#define KERNEL(name, Args) \
  m.def(#name, [](const Args& args) { \
    nb::gil_scoped_release release; \
    return kernels().name(args); \
  })

NB_MODULE(_kernels, m) {
  m.def("isa", [] { return kernels().isa; });
  m.def("advise_huge", [](Pointer data, i64 bytes) {
    nb::gil_scoped_release release;
    advise_huge(at(data), bytes);
    touch(at<char>(data), bytes);
  });
  m.def("threads", [] { return omp_get_max_threads(); });
  m.def("build_layout", [](Pointer source, Pointer destination, bool wide_source, const LayoutArgs& to) {
    nb::gil_scoped_release release;
    const auto run = [&]<class S, class I>() {
      const auto p = [](const void* q) { return static_cast<I*>(const_cast<void*>(q)); };
      build_layout(at<const S>(source), at<const S>(destination), to.e, to.m, to.n, p(to.rowptr),
                   p(to.col), p(to.perm), p(to.colptr), p(to.row), p(to.csr2csc));
    };
    if (wide_source && to.wide) run.operator()<i64, i64>();
    else if (wide_source) run.operator()<i64, std::int32_t>();
    else if (to.wide) run.operator()<std::int32_t, i64>();
    else run.operator()<std::int32_t, std::int32_t>();
  });

  nb::class_<LayoutArgs>(m, "LayoutArgs")
      .def("__init__", [](LayoutArgs* a, Pointer rowptr, Pointer col, Pointer perm, Pointer colptr,
                          Pointer row, Pointer csr2csc, i64 n, i64 num_src, i64 e, bool wide) {
        new (a) LayoutArgs{at(rowptr), at(col), at(perm), at(colptr), at(row), at(csr2csc), n, num_src, e, wide};
      });
  {
    using Args = AdditiveArgs;
    Binder<Args>(m, "AdditiveArgs").common().dropout().VALUE(value_heads).VALUE(negative_slope)
        .ROWS(query_score).ROWS(key_score).ROWS(value).ROWS(edge_score)
        .POINTER(out).POINTER(out_acc).POINTER(row_max).POINTER(row_sum).POINTER(out_pos_centered)
        .ROWS(grad_out).POINTER(grad_query_score).POINTER(grad_key_score).POINTER(grad_value)
        .POINTER(grad_edge_score);
  }
  {
    using Args = DotProductArgs;
    Binder<Args>(m, "DotProductArgs").common().dropout().VALUE(value_channels).VALUE(features)
        .VALUE(scale).ROWS(query).ROWS(key).ROWS(value).ROWS(bias).ROWS(edge_attr).ROWS(edge_proj)
        .POINTER(out).POINTER(out_acc).POINTER(edge_out).POINTER(row_max).POINTER(row_sum)
        .ROWS(grad_out).POINTER(grad_query).POINTER(grad_key).POINTER(grad_value)
        .POINTER(grad_bias).POINTER(grad_edge_attr).POINTER(grad_edge_proj)
        .POINTER(alpha).POINTER(grad_score);
  }
  {
    using Args = MLPArgs;
    Binder<Args>(m, "MLPArgs").common().dropout().VALUE(value_channels).VALUE(features).VALUE(tanh)
        .VALUE(negative_slope).ROWS(query).ROWS(key).ROWS(value).ROWS(weight).ROWS(edge_attr)
        .ROWS(edge_proj).POINTER(out).POINTER(out_acc).POINTER(row_max).POINTER(row_sum).POINTER(score)
        .ROWS(grad_out).POINTER(grad_query).POINTER(grad_key).POINTER(grad_value)
        .POINTER(grad_weight).POINTER(grad_edge_attr).POINTER(grad_edge_proj).POINTER(alpha)
        .POINTER(grad_score);
  }
  {
    using Args = EdgeArgs;
    Binder<Args>(m, "EdgeArgs").common().VALUE(value_heads).VALUE(transposed).ROWS(left).ROWS(right)
        .POINTER(out);
  }
  {
    using Args = NodeArgs;
    Binder<Args>(m, "NodeArgs").dtype().VALUE(rows).VALUE(heads).VALUE(channels).VALUE(count)
        .ROWS(value).ROWS(vectors).POINTER(scores).POINTER(grad_value).POINTER(grad_vectors);
  }
  {
    using Args = ElementArgs;
    Binder<Args>(m, "ElementArgs").dtype().dropout().VALUE(count).POINTER(x).POINTER(out);
  }
  KERNEL(additive_forward, AdditiveArgs);
  KERNEL(additive_backward, AdditiveArgs);
  KERNEL(dot_product_forward, DotProductArgs);
  KERNEL(dot_product_backward, DotProductArgs);
  KERNEL(mlp_forward, MLPArgs);
  KERNEL(mlp_backward, MLPArgs);
  KERNEL(mlp_score, MLPArgs);
  KERNEL(edge_softmax, EdgeArgs);
  KERNEL(edge_softmax_backward, EdgeArgs);
  KERNEL(aggregate, EdgeArgs);
  KERNEL(edge_dot, EdgeArgs);
  KERNEL(row_gather, EdgeArgs);
  KERNEL(node_scores, NodeArgs);
  KERNEL(node_scores_backward, NodeArgs);
  KERNEL(dropout, ElementArgs);
}
