#include "kernels/cuda/host/streams.h"
#include "tests/kernels/cuda/backend/stream_orders.h"

namespace titan::test {
namespace {

using cuda::host::StreamOrder;

constexpr StreamOrder kOrders[] = {StreamOrder::enqueued, StreamOrder::late, StreamOrder::newest,
                                   StreamOrder::random};

}  // namespace

std::vector<std::string> stream_orders() { return {"enqueued", "late", "newest", "random"}; }
void set_stream_order(std::size_t order) { cuda::host::set_stream_order(kOrders[order], 5); }

}  // namespace titan::test
