// The CUDA backend on the host: lanes, waits, graphs, errors.
#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/backend/cuda_backend.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/host/streams.h"
#include "tests/support/commands.h"

namespace titan::cuda {
namespace {

using host::StreamOrder;
using test::CommandList;
using test::operand;

constexpr std::int64_t kN = 1000;
constexpr StreamOrder kOrders[] = {StreamOrder::enqueued, StreamOrder::late, StreamOrder::newest,
                                   StreamOrder::random};

Fill fill(ValueId value, float x) { return {.y = operand<Out>(value, DType::f32, 1, kN), .value = x}; }
Add add(ValueId a, ValueId b, ValueId y) {
  return {.a = operand<In>(a, DType::f32, 1, kN),
          .b = operand<In>(b, DType::f32, 1, kN),
          .y = operand<Out>(y, DType::f32, 1, kN)};
}

/// `count` values of kN floats in one block of the backend.
std::vector<std::byte*> values(Backend& backend, int count, Space space = Space::device) {
  std::byte* block = backend.allocate(space, count * kN * 4);
  std::vector<std::byte*> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back(block + i * kN * 4);
  return addresses;
}

float last(Backend& backend, const CommandList& list, ValueId value) {
  float x = 0;
  backend.download(list.commands()[0].binding.addresses[value] + (kN - 1) * 4, &x, sizeof x);
  return x;
}

/// Calls f() in every order of streams.
template <class F>
void in_all_orders(F f) {
  for (const StreamOrder order : kOrders) {
    INFO("order " << static_cast<int>(order));
    host::set_stream_order(order, 5);
    f();
  }
  host::set_stream_order(StreamOrder::enqueued);
}

TEST_CASE("on CUDA allocated memory is zero and a copy comes back") {
  const auto backend = make_cuda_backend({});
  for (const Space space : {Space::device, Space::host}) {
    std::byte* const p = backend->allocate(space, 4000);
    std::vector<std::byte> bytes(4000, std::byte{1});
    backend->download(p, bytes.data(), 4000);
    CHECK(bytes == std::vector<std::byte>(4000));
    const float x = 3;
    float y = 0;
    backend->upload(&x, p + 400, sizeof x);
    backend->download(p + 400, &y, sizeof y);
    CHECK(y == 3);
  }
  CHECK(!backend->host_addressable(Space::device));
  CHECK(backend->host_addressable(Space::host));
}

TEST_CASE("a GPU that is too small is refused with its numbers, and a device that does not exist") {
  const auto backend = make_cuda_backend({});
  CHECK_THROWS_WITH(backend->allocate(Space::device, std::int64_t{1} << 40),
                    Catch::Contains("needs 1024.00 GiB on the GPU") && Catch::Contains("free of 8.00 GiB"));
  CHECK_THROWS_AS(backend->allocate(Space::device, std::int64_t{1} << 40), UserError);
  CHECK_NOTHROW(backend->allocate(Space::device, 100));  // the error was not sticky
  CHECK_THROWS_WITH(make_cuda_backend({.device = 1}), Catch::Contains("no CUDA device 1"));
}

TEST_CASE("CUDA lanes wait for each other, eagerly and in a graph") {
  for (const bool graphs : {false, true})
    in_all_orders([&] {
      const auto backend = make_cuda_backend({.graphs = graphs});
      CommandList list(values(*backend, 4));
      const Wait start = list.add(0, fill(0, 1));
      const Wait left = list.add(1, add(0, 0, 1), {start}), right = list.add(2, add(0, 0, 2), {start});
      const Wait join = list.add(0, add(1, 2, 3), {left, right});
      list.add(1, add(3, 3, 1), {join});
      for (int run = 0; run < 3; ++run) {
        backend->execute(list.commands(), nullptr, {});
        CHECK(last(*backend, list, 1) == 8);
      }
      backend->forget(list.commands());
    });
}

TEST_CASE("a wait that is missing between CUDA lanes shows") {
  int wrong = 0;
  in_all_orders([&] {
    const auto backend = make_cuda_backend({});
    CommandList list(values(*backend, 3));
    list.add(0, fill(0, 1));
    list.add(0, fill(1, 2));
    list.add(1, add(0, 1, 2));  // needs a wait
    list.add(0, fill(1, 7));    // and must not overtake it
    backend->execute(list.commands(), nullptr, {});
    if (last(*backend, list, 2) != 3) ++wrong;
  });
  CHECK(wrong > 0);
}

TEST_CASE("times of commands on CUDA lie in the order of their waits") {
  const auto backend = make_cuda_backend({});
  CommandList list(values(*backend, 2));
  const Wait first = list.add(1, fill(0, 1));
  list.add(0, add(0, 0, 1), {first});
  std::vector<CommandTime> times(2);
  backend->execute(list.commands(), nullptr, times);
  CHECK(times[0].begin >= 0);
  CHECK(times[0].begin <= times[0].end);
  CHECK(times[0].end <= times[1].begin);
  CHECK(last(*backend, list, 1) == 2);
}

TEST_CASE("commands for the host run on the host's backend, and their errors name them") {
  in_all_orders([&] {
    const auto backend = make_cuda_backend({.host = cpu::make_cpu_backend({.threads = 1})});
    CommandList list(values(*backend, 2, Space::host));
    const Wait first = list.add(0, fill(0, 4));
    list.add(1, add(0, 0, 1), {first});
    list.mutable_commands()[1].on_host = true;
    for (int run = 0; run < 3; ++run) {
      backend->execute(list.commands(), nullptr, {});
      CHECK(last(*backend, list, 1) == 8);
    }
    CommandList broken(values(*backend, 2, Space::host));
    broken.add(0, fill(0, 4));
    broken.add(1, Copy{.x = operand<In>(0, DType::f32, 1, 1), .y = operand<Out>(1, DType::f32, 1, 2)});
    broken.mutable_commands()[1].on_host = true;
    try {
      backend->execute(broken.commands(), nullptr, {});
      FAIL("no error");
    } catch (const CommandError& error) {
      CHECK(error.index() == 1);
      CHECK_THAT(error.what(), Catch::Contains("1 vs 2"));
    }
  });
}

TEST_CASE("a broken command on CUDA is named, and the backend works on") {
  const auto backend = make_cuda_backend({});
  CommandList broken(values(*backend, 2));
  broken.add(0, fill(0, 1));
  broken.add(0, Copy{.x = operand<In>(0, DType::f32, 1, 1), .y = operand<Out>(1, DType::f32, 1, 2)});
  try {
    backend->execute(broken.commands(), nullptr, {});
    FAIL("no error");
  } catch (const CommandError& error) {
    CHECK(error.index() == 1);
  }
  CommandList good(values(*backend, 1));
  good.add(2, fill(0, 7));
  backend->execute(good.commands(), nullptr, {});
  CHECK(last(*backend, good, 0) == 7);
}

TEST_CASE("an error on the device ends the run with its message, and synchronously names the command") {
  for (const bool synchronous : {false, true}) {
    const auto backend = make_cuda_backend({.synchronous = synchronous});
    CommandList list(values(*backend, 1));
    list.add(0, fill(0, 1));
    list.add(0, Iota{.y = operand<Out>(0, DType::i32, std::int64_t{1} << 40, 1)});  // a grid of 2^32 blocks
    list.add(0, fill(0, 2));
    if (synchronous) try {
        backend->execute(list.commands(), nullptr, {});
        FAIL("no error");
      } catch (const CommandError& error) {
        CHECK(error.index() == 1);
        CHECK_THAT(error.what(), Catch::Contains("nothing to launch"));
      }
    else
      CHECK_THROWS_WITH(backend->execute(list.commands(), nullptr, {}),
                        Catch::Contains("nothing to launch") && Catch::Contains("TITAN_CUDA_SYNCHRONOUS=1"));
    host::reset_device();
  }
}

TEST_CASE(
    "on CUDA a wait for a command that comes later, or a wrong ticket, is refused before anything runs") {
  const auto backend = make_cuda_backend({});
  CommandList late(values(*backend, 1));
  late.add(0, fill(0, 1), {{1, 1}});
  late.add(1, fill(0, 1), {{0, 1}});
  CHECK_THROWS_AS(backend->execute(late.commands(), nullptr, {}), InternalError);
  CommandList wrong(values(*backend, 1));
  wrong.add(0, fill(0, 1));
  wrong.mutable_commands()[0].ticket = 2;
  CHECK_THROWS_AS(backend->execute(wrong.commands(), nullptr, {}), InternalError);
}

}  // namespace
}  // namespace titan::cuda
