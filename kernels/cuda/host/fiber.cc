#include "kernels/cuda/host/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define TITAN_FIBER_ASAN 1
#else
#define TITAN_FIBER_ASAN 0
#endif

// titan_switch_stack(save, to): pushes what the System V ABI wants kept, stores the stack pointer in *save
// and goes on where `to` was stored.
extern "C" void titan_switch_stack(void** save, void* to);
#if defined(__x86_64__)
asm(R"(
  .text
  .globl titan_switch_stack
  .type titan_switch_stack, @function
titan_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size titan_switch_stack, . - titan_switch_stack
  .globl titan_enter_fiber
  .type titan_enter_fiber, @function
titan_enter_fiber:
  movq %r12, %rdi
  callq *%r13
  ud2
  .size titan_enter_fiber, . - titan_enter_fiber
)");
#else
#error "fibers are written for x86-64"
#endif
extern "C" void titan_enter_fiber();

namespace titan::cuda::host {

FiberStack::FiberStack(std::size_t bytes) : bytes_(bytes) {
  void* mapping =
      mmap(nullptr, bytes + kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(bottom(), bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

FiberStack::~FiberStack() { munmap(mapping_, bytes_ + kGuard); }

void Fiber::start(const FiberStack& stack, FunctionRef<void()> body) {
  stack_ = &stack;
  body_.emplace(body);
  error_ = nullptr;
  fake_stack_ = nullptr;
#if TITAN_FIBER_ASAN
  __asan_unpoison_memory_region(stack.bottom(), stack.bytes());  // frames of an earlier body
#endif
  // What titan_switch_stack pops: r15, r14, r13, r12, rbx, rbp, then the address it returns to. The ABI wants
  // the stack pointer 16-byte aligned before the call in titan_enter_fiber.
  auto** top = reinterpret_cast<void**>(stack.bottom() + stack.bytes());
  *--top = nullptr;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&titan_enter_fiber);
  *--top = nullptr;                                 // rbp
  *--top = nullptr;                                 // rbx
  *--top = this;                                    // r12
  *--top = reinterpret_cast<void*>(&Fiber::entry);  // r13
  *--top = nullptr;                                 // r14
  *--top = nullptr;                                 // r15
  own_pointer_ = top;
}

void Fiber::entry(Fiber* self) {
  self->run();
  std::abort();  // an ended fiber is not resumed
}

void Fiber::run() {
#if TITAN_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &caller_bottom_, &caller_bytes_);
#endif
  try {
    (*body_)();
  } catch (...) {
    error_ = std::current_exception();
  }
  body_.reset();
#if TITAN_FIBER_ASAN
  __sanitizer_start_switch_fiber(nullptr, caller_bottom_,
                                 caller_bytes_);  // null: this stack's frames are gone
#endif
  titan_switch_stack(&own_pointer_, caller_pointer_);
}

void Fiber::resume() {
#if TITAN_FIBER_ASAN
  void* caller_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&caller_fake_stack, stack_->bottom(), stack_->bytes());
#endif
  titan_switch_stack(&caller_pointer_, own_pointer_);
#if TITAN_FIBER_ASAN
  __sanitizer_finish_switch_fiber(caller_fake_stack, nullptr, nullptr);
#endif
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Fiber::yield() {
#if TITAN_FIBER_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, caller_bottom_, caller_bytes_);
#endif
  titan_switch_stack(&own_pointer_, caller_pointer_);
#if TITAN_FIBER_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_bottom_, &caller_bytes_);
#endif
}

}  // namespace titan::cuda::host
