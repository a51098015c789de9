// What only the host's CUDA shows of the backend: memory of a known size, every order of streams, sticky
// errors.
#include <catch2/catch.hpp>

#include "kernels/base/error.h"
#include "kernels/cuda/backend/cuda_backend.h"
#include "kernels/cuda/host/streams.h"
#include "tests/kernels/cuda/backend/backend_fixture.h"
#include "tests/kernels/cuda/backend/stream_orders.h"

namespace titan::cuda {
namespace {

TEST_CASE("a GPU that is too small is refused with its numbers, and a device that does not exist") {
  const auto backend = make_cuda_backend({});
  CHECK_THROWS_WITH(backend->allocate(Space::device, std::int64_t{1} << 40),
                    Catch::Contains("needs 1024.00 GiB on the GPU") && Catch::Contains("free of 8.00 GiB"));
  CHECK_THROWS_AS(backend->allocate(Space::device, std::int64_t{1} << 40), UserError);
  CHECK_NOTHROW(backend->allocate(Space::device, 100));  // the error was not sticky
  CHECK_THROWS_WITH(make_cuda_backend({.device = 1}), Catch::Contains("no CUDA device 1"));
}

TEST_CASE("a wait that is missing between CUDA lanes shows") {
  int wrong = 0;
  test::in_all_stream_orders([&] {
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

}  // namespace
}  // namespace titan::cuda
