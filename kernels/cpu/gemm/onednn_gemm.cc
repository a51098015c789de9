#include "kernels/cpu/gemm/onednn_gemm.h"

#include <fmt/format.h>

#include <dnnl.hpp>
#include <map>
#include <tuple>
#include <vector>

namespace titan::cpu {
namespace {

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       bool, bool, bool, DType, DType>;

Key key_of(const GemmProblem& p) {
  return {p.m,   p.n,     p.k,     p.a.pitch, p.b.pitch, p.c_pitch, p.a.transposed, p.b.transposed,
          p.add, p.input, p.output};
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// The logical [rows, columns] operand, whatever its storage.
dnnl::memory::desc describe(std::int64_t rows, std::int64_t columns, std::int64_t pitch, bool transposed,
                            DType dtype) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, pitch} : dnnl::memory::dims{pitch, 1};
  return {{rows, columns}, dnnl_type(dtype), strides};
}

struct Primitive {
  dnnl::matmul matmul;
  dnnl::memory a, b, c, scratchpad;  ///< addresses are set at each call
  std::int64_t scratchpad_bytes;
};

}  // namespace

struct OneDnnGemm::Cache {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Primitive> primitives;
  std::vector<std::byte> scratchpad;

  Primitive& find(const GemmProblem& p) {
    const Key key = key_of(p);
    if (const auto it = primitives.find(key); it != primitives.end()) return it->second;
    return primitives.emplace(key, create(p)).first->second;
  }

  Primitive create(const GemmProblem& p) const {
    const auto a = describe(p.m, p.k, p.a.pitch, p.a.transposed, p.input);
    const auto b = describe(p.k, p.n, p.b.pitch, p.b.transposed, p.input);
    const auto c = describe(p.m, p.n, p.c_pitch, false, p.output);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.add) {
      dnnl::post_ops post;
      post.append_sum(1.0f);
      attributes.set_post_ops(post);
    }
    const dnnl::matmul::primitive_desc descriptor({a, b, c}, attributes, engine);
    const dnnl::memory::desc scratchpad = descriptor.scratchpad_desc();
    return {.matmul = dnnl::matmul(descriptor),
            .a = {a, engine, nullptr},
            .b = {b, engine, nullptr},
            .c = {c, engine, nullptr},
            .scratchpad = {scratchpad, engine, nullptr},
            .scratchpad_bytes = static_cast<std::int64_t>(scratchpad.get_size())};
  }
};

OneDnnGemm::OneDnnGemm() : cache_(std::make_unique<Cache>()) {}
OneDnnGemm::~OneDnnGemm() = default;

void OneDnnGemm::multiply(const GemmProblem& problem, void* workspace, std::int64_t workspace_bytes) {
  Primitive& p = cache_->find(problem);
  if (workspace_bytes < p.scratchpad_bytes) {
    std::vector<std::byte>& own = cache_->scratchpad;
    if (static_cast<std::int64_t>(own.size()) < p.scratchpad_bytes) own.resize(p.scratchpad_bytes);
    workspace = own.data();
  }
  p.a.set_data_handle(const_cast<void*>(problem.a.data));
  p.b.set_data_handle(const_cast<void*>(problem.b.data));
  p.c.set_data_handle(problem.c);
  p.scratchpad.set_data_handle(workspace);
  p.matmul.execute(cache_->stream, {{DNNL_ARG_SRC, p.a},
                                    {DNNL_ARG_WEIGHTS, p.b},
                                    {DNNL_ARG_DST, p.c},
                                    {DNNL_ARG_SCRATCHPAD, p.scratchpad}});
  cache_->stream.wait();
}

std::int64_t OneDnnGemm::workspace_bytes(const GemmProblem& problem) {
  return cache_->find(problem).scratchpad_bytes;
}

std::int64_t OneDnnGemm::buffer_bytes() const { return static_cast<std::int64_t>(cache_->scratchpad.size()); }

std::string OneDnnGemm::version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace titan::cpu
