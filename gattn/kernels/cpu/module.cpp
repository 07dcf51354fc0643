// This file is the Python module, which runs kernels by name, compiled for the instruction set of
// this machine. It is independent of the kernels: arguments are packed as the kernel tables declare
// (args.h).
#include <nanobind/nanobind.h>
#include <omp.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "args.h"
#include "isas.h"  // CMake generates this file
#include "layout.h"
#include "memory.h"

namespace nb = nanobind;
using namespace gattn;

#define GATTN_DECLARE(isa, supported) \
  namespace gattn::isa {              \
  const KernelSet& kernel_set();      \
  }
GATTN_ISAS(GATTN_DECLARE)

namespace {

using Pointer = std::uintptr_t;

// Return the kernels of the best instruction set that this machine supports, or null if it supports
// none of the compiled instruction sets.
const KernelSet* choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  const KernelSet* best = nullptr;
#define GATTN_CHOOSE(isa, supported) \
  if (supported) best = &gattn::isa::kernel_set();
  GATTN_ISAS(GATTN_CHOOSE)
  return best;
}

const KernelSet& chosen() {
  static const KernelSet& set = *choose();
  return set;
}

template <class T = void> T* at(Pointer p) { return reinterpret_cast<T*>(p); }

// Return a dictionary with the fields of each kernel's argument struct in order, as pairs (name,
// kind).
nb::dict describe() {
  nb::dict kernels;
  for (const Kernel& kernel : chosen().kernels) {
    nb::list fields;
    for (const Field& field : kernel.fields) fields.append(nb::make_tuple(field.name, field.kind));
    kernels[kernel.name] = fields;
  }
  return kernels;
}

void run(std::size_t number, const nb::bytes& packed) {
  const auto kernels = chosen().kernels;
  if (number >= kernels.size()) throw nb::index_error("there is no kernel with this index");
  const Kernel& kernel = kernels[number];
  if (packed.size() != kernel.size)
    throw nb::value_error((std::string(kernel.name) + " takes " + std::to_string(kernel.size) +
                           " bytes of arguments; got " + std::to_string(packed.size()))
                              .c_str());
  const void* args = packed.data();
  nb::gil_scoped_release release;
  kernel.run(args);
}

template <class Source, class I>
bool sort_edges(Pointer source, Pointer destination, Pointer rowptr, Pointer col, Pointer perm,
                Pointer colptr, Pointer row, Pointer csr2csc, i64 n, i64 m, i64 e) {
  return build_layout(at<const Source>(source), at<const Source>(destination), e, m, n,
                      at<I>(rowptr), at<I>(col), at<I>(perm), at<I>(colptr), at<I>(row),
                      at<I>(csr2csc));
}

template <class I> void build_columns_at(Pointer rowptr, Pointer col, Pointer colptr, Pointer row,
                                         Pointer csr2csc, i64 n, i64 m) {
  build_columns(at<const I>(rowptr), at<const I>(col), m, n, at<I>(colptr), at<I>(row),
                at<I>(csr2csc));
}

}  // namespace

NB_MODULE(_kernels, m) {
#define GATTN_NAME(isa, supported) " " #isa
  if (choose() == nullptr)
    throw nb::import_error("the C++ extension was compiled for" GATTN_ISAS(
        GATTN_NAME) ", which this machine lacks: install gattn again on it, or set "
                    "GATTN_ISAS=all for the build");
  m.def("isa", [] { return chosen().isa; });
  m.def("kernels", describe);
  m.def("run", run);
  m.def("threads", [] { return omp_get_max_threads(); });
  m.def("advise_huge", [](Pointer data, i64 num_bytes) {
    nb::gil_scoped_release release;
    advise_huge(at(data), num_bytes);
  });
  m.def("keep_freed_memory", keep_freed_memory);
  m.def("checksum", [](Pointer data, i64 num_bytes) {
    nb::gil_scoped_release release;
    return chosen().checksum(at(data), num_bytes);
  });
  m.def("build_layout", [](Pointer source, Pointer destination, bool source_is_int64,
                           Pointer rowptr, Pointer col, Pointer perm, Pointer colptr, Pointer row,
                           Pointer csr2csc, i64 n, i64 m, i64 e, bool is_int64) {
    nb::gil_scoped_release release;
    using i32 = std::int32_t;
    const auto sort = source_is_int64 ? is_int64 ? sort_edges<i64, i64> : sort_edges<i64, i32>
                      : is_int64      ? sort_edges<i32, i64>
                                      : sort_edges<i32, i32>;
    return sort(source, destination, rowptr, col, perm, colptr, row, csr2csc, n, m, e);
  });
  m.def("build_columns", [](Pointer rowptr, Pointer col, Pointer colptr, Pointer row,
                            Pointer csr2csc, i64 n, i64 m, bool is_int64) {
    nb::gil_scoped_release release;
    const auto build = is_int64 ? build_columns_at<i64> : build_columns_at<std::int32_t>;
    build(rowptr, col, colptr, row, csr2csc, n, m);
  });
}
