#include "kernels/cuda/host/fiber.h"

#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <vector>

namespace titan::cuda::host {
namespace {

TEST_CASE("fibers take turns and keep what they hold") {
  std::vector<int> order;
  std::vector<std::unique_ptr<FiberStack>> stacks;
  std::vector<Fiber> fibers(3);
  for (int i = 0; i < 3; ++i) stacks.push_back(std::make_unique<FiberStack>());
  auto body = [&](int id) {
    double held = id + 0.5;
    for (int turn = 0; turn < 3; ++turn) {
      order.push_back(id);
      fibers[static_cast<std::size_t>(id)].yield();
      held *= 2;
    }
    CHECK(held == (id + 0.5) * 8);
  };
  auto zero = [&] { body(0); };
  auto one = [&] { body(1); };
  auto two = [&] { body(2); };
  fibers[0].start(*stacks[0], zero);
  fibers[1].start(*stacks[1], one);
  fibers[2].start(*stacks[2], two);
  while (!fibers[0].done())
    for (Fiber& fiber : fibers) fiber.resume();
  CHECK(order == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2});
  for (const Fiber& fiber : fibers) CHECK(fiber.done());
}

TEST_CASE("what a fiber throws reaches its resumer, and the fiber can start again") {
  const FiberStack stack;
  Fiber fiber;
  auto thrower = [] { throw std::runtime_error("here"); };
  fiber.start(stack, thrower);
  CHECK_THROWS_WITH(fiber.resume(), "here");
  CHECK(fiber.done());
  bool ran = false;
  auto runner = [&] { ran = true; };
  fiber.start(stack, runner);
  fiber.resume();
  CHECK(ran);
}

}  // namespace
}  // namespace titan::cuda::host
