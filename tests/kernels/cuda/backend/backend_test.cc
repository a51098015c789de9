// The CUDA backend, on the host and on a GPU: lanes, waits, graphs, errors.
#include <catch2/catch.hpp>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/backend/cuda_backend.h"
#include "tests/kernels/cuda/backend/backend_fixture.h"
#include "tests/kernels/cuda/backend/stream_orders.h"

namespace titan::cuda {
namespace {

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

TEST_CASE("CUDA lanes wait for each other, eagerly and in a graph") {
  for (const bool graphs : {false, true})
    test::in_all_stream_orders([&] {
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
  test::in_all_stream_orders([&] {
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
