// This file compiles the classes of edge_terms.h for all dtypes.
#include "edge_terms.h"

namespace gattn::GATTN_ISA {

template struct EdgeRows<float>;
template struct EdgeRows<double>;
template struct EdgeRows<bf16>;
template struct EdgeRows<f16>;
template struct EdgeTerms<float>;
template struct EdgeTerms<double>;
template struct EdgeTerms<bf16>;
template struct EdgeTerms<f16>;

}  // namespace gattn::GATTN_ISA
