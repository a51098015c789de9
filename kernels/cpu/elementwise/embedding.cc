#include <algorithm>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"

namespace titan::cpu {
namespace {

const EmbeddingKernels& kernels(Isa isa) {
  return choose(isa, baseline::kEmbedding, avx2::kEmbedding, avx512::kEmbedding);
}

/// Counting sort of the token rows by table row, stable: rows of entry e are
/// order[ends[e-1]] … order[ends[e]-1], ascending. `scratch` holds ends (one more than the entries), then
/// order.
struct TokenRows {
  std::int32_t *ends, *order;

  TokenRows(const EmbeddingGrad& op, const std::int32_t* tokens, std::int32_t* scratch)
      : ends(scratch + 1), order(scratch + op.dtable.rows + 1) {
    const std::int64_t entries = op.dtable.rows;
    const auto entry = [&](std::int64_t t) { return tokens[t * op.tokens.pitch] - op.first_row; };
    const auto is_here = [&](std::int64_t e) { return e >= 0 && e < entries; };
    std::fill_n(scratch, entries + 1, 0);
    for (std::int64_t t = 0; t < op.tokens.rows; ++t)
      if (is_here(entry(t))) ++ends[entry(t)];
    // Counts become starts, which move to the ends as the rows are put in place.
    std::int32_t start = 0;
    for (std::int64_t e = 0; e < entries; ++e) start += std::exchange(ends[e], start);
    for (std::int64_t t = 0; t < op.tokens.rows; ++t)
      if (is_here(entry(t))) order[ends[entry(t)]++] = static_cast<std::int32_t>(t);
  }
  std::int32_t begin(std::int64_t entry) const { return ends[entry - 1]; }
  std::int32_t count(std::int64_t entry) const { return ends[entry] - ends[entry - 1]; }
};

}  // namespace

void run(const Embedding& op, const Context& context) {
  const EmbeddingArgs args{rows_of(context, op.tokens),
                           rows_of(context, op.table),
                           rows_of(context, op.y),
                           op.first_row,
                           op.table.rows,
                           op.y.cols};
  const auto kernel = kernels(context.isa).embedding[element_type(op.table)][element_type(op.y)];
  context.team.parallel_for(op.y.rows, grain_of_rows(op.y.cols),
                            [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

void run(const EmbeddingGrad& op, const Context& context) {
  const TokenRows rows(op, context.data_as<std::int32_t>(op.tokens), context.data_as<std::int32_t>(op.order));
  const auto kernel = kernels(context.isa).sum_picked[element_type(op.dy)];
  constexpr int kDtable = 2;
  const bool add = !context.overwrites(kDtable);
  // Entries differ in work: some tokens are far more frequent than others.
  const std::int64_t block = grain_of_rows(op.dtable.cols), entries = op.dtable.rows;
  context.team.parallel_items((entries + block - 1) / block, [&](std::int64_t b, int) {
    for (std::int64_t e = b * block; e < std::min(entries, (b + 1) * block); ++e)
      if (rows.count(e) > 0 || !add)
        kernel(rows_of(context, op.dy), rows.order + rows.begin(e), rows.count(e),
               context.data_as<float>(op.dtable) + e * op.dtable.pitch, add, op.dtable.cols);
  });
}

}  // namespace titan::cpu
