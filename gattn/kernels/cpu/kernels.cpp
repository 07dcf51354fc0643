// The table of kernels of one instruction set.
#include "args.h"

#define GATTN_STRING_(x) #x
#define GATTN_STRING(x) GATTN_STRING_(x)

namespace gattn {
namespace GATTN_ISA {

void additive_forward(const AdditiveArgs&);
void additive_backward(const AdditiveArgs&);
void dot_product_forward(const DotProductArgs&);
void dot_product_backward(const DotProductArgs&);
void mlp_forward(const MLPArgs&);
void mlp_backward(const MLPArgs&);
void mlp_score(const MLPArgs&);
void edge_softmax(const EdgeArgs&);
void edge_softmax_backward(const EdgeArgs&);
void aggregate(const EdgeArgs&);
void edge_dot(const EdgeArgs&);
double row_gather(const EdgeArgs&);
void node_scores(const NodeArgs&);
void node_scores_backward(const NodeArgs&);
void dropout(const ElementArgs&);

extern const Kernels kernels;
const Kernels kernels = {
    GATTN_STRING(GATTN_ISA), additive_forward, additive_backward, dot_product_forward,
    dot_product_backward,    mlp_forward,      mlp_backward,      mlp_score,
    edge_softmax,            edge_softmax_backward, aggregate,    edge_dot,
    row_gather,              node_scores,      node_scores_backward, dropout,
};

}  // namespace GATTN_ISA
}  // namespace gattn
