// The orders in which streams may run against each other: of the host's CUDA several, on a GPU its own,
// twice.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace titan::test {

std::vector<std::string> stream_orders();
/// For all that runs from now on; the first is the usual one.
void set_stream_order(std::size_t order);

/// Calls f() in every order.
template <class F>
void in_all_stream_orders(F f) {
  for (std::size_t order = 0; order < stream_orders().size(); ++order) {
    INFO("streams " << stream_orders()[order]);
    set_stream_order(order);
    f();
  }
  set_stream_order(0);
}

}  // namespace titan::test
