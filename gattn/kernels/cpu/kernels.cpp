// This file joins the tables of all C++ files into the table of all kernels of one instruction set.
#include <vector>

#include "args.h"
#include "checksum.h"

#define GATTN_FAMILIES(FAMILY) \
  FAMILY(gat)                  \
  FAMILY(dot_product)          \
  FAMILY(gatv2)                \
  FAMILY(edge)                 \
  FAMILY(node)                 \
  FAMILY(dropout)              \
  FAMILY(gather)               \
  FAMILY(molecule_network)     \
  FAMILY(molecule_features)    \
  FAMILY(sampling)

#define GATTN_STRING_(x) #x
#define GATTN_STRING(x) GATTN_STRING_(x)

namespace gattn::GATTN_ISA {

#define GATTN_DECLARE(family) std::span<const Kernel> family##_kernels();
GATTN_FAMILIES(GATTN_DECLARE)

const KernelSet& kernel_set() {
  static const std::vector<Kernel> all = [] {
    std::vector<Kernel> kernels;
#define GATTN_APPEND(family) \
  for (const Kernel& kernel : family##_kernels()) kernels.push_back(kernel);
    GATTN_FAMILIES(GATTN_APPEND)
    return kernels;
  }();
  static const KernelSet set{GATTN_STRING(GATTN_ISA), all, checksum};
  return set;
}

}  // namespace gattn::GATTN_ISA
