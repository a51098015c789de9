// The host's cuBLASLt against double loops, and what it refuses as a Hopper GPU does.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cuda/gemm/lt_handles.h"
#include "kernels/cuda/host/streams.h"

namespace titan::cuda {
namespace {

using Floats = std::vector<float>;

/// A value of an 8-bit type by its definition.
double decode(cudaDataType type, unsigned bits) {
  const bool e4m3 = type == CUDA_R_8F_E4M3;
  const int fraction_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const double sign = bits >= 128 ? -1 : 1;
  const unsigned exponent = (bits & 127) >> fraction_bits, fraction = bits & ((1u << fraction_bits) - 1);
  const double share = fraction / std::pow(2.0, fraction_bits);
  if (e4m3 && (bits & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  if (!e4m3 && exponent == 31)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * share * std::pow(2.0, 1 - bias);
  return sign * (1 + share) * std::pow(2.0, static_cast<int>(exponent) - bias);
}

std::size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

/// Device memory that holds numbers of one type.
class Buffer {
 public:
  Buffer(cudaDataType type, std::size_t count) : type_(type), count_(count) {
    REQUIRE(cudaMalloc(&p_, count * size_of(type)) == cudaSuccess);
  }
  ~Buffer() { cudaFree(p_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* get() const { return p_; }
  /// Element i from `bytes` (of an 8-bit type), or from numbers.
  void set_bytes(const std::vector<std::uint8_t>& bytes) { std::memcpy(p_, bytes.data(), bytes.size()); }
  void set(std::size_t i, float x) {
    if (type_ == CUDA_R_32F)
      static_cast<float*>(p_)[i] = x;
    else
      static_cast<bf16*>(p_)[i] = to_bf16(x);
  }
  double operator[](std::size_t i) const {
    if (type_ == CUDA_R_32F) return static_cast<float*>(p_)[i];
    if (type_ == CUDA_R_16BF) return to_float(static_cast<bf16*>(p_)[i]);
    return decode(type_, static_cast<std::uint8_t*>(p_)[i]);
  }
  void fill(std::mt19937& random) {
    std::normal_distribution<float> draw;
    for (std::size_t i = 0; i < count_; ++i) {
      if (size_of(type_) > 1) set(i, draw(random));
      // Finite and not too large.
      if (size_of(type_) == 1)
        static_cast<std::uint8_t*>(p_)[i] = static_cast<std::uint8_t>(random() % 0x50 + random() % 2 * 0x80);
    }
  }

 private:
  cudaDataType type_;
  std::size_t count_;
  void* p_ = nullptr;
};

struct Shape {
  std::int64_t m = 32, n = 16, k = 48;
  bool transpose_a = false, transpose_b = false;
  cudaDataType a = CUDA_R_32F, b = CUDA_R_32F, d = CUDA_R_32F;
  std::int64_t padding = 0;
  int batch = 1;
  bool row_major_a = false;
};

/// One product with its operands on the device.
class Product {
 public:
  explicit Product(const Shape& shape)
      : s(shape),
        library(make_lt_library()),
        desc(make_lt_desc()),
        preference(make_lt_preference()),
        a_rows(s.transpose_a ? s.k : s.m),
        b_rows(s.transpose_b ? s.n : s.k),
        a_layout(make_lt_layout(s.a, a_rows, a_cols(), (s.row_major_a ? a_cols() : a_rows) + s.padding)),
        b_layout(make_lt_layout(s.b, b_rows, b_cols(), b_rows + s.padding)),
        c_layout(make_lt_layout(s.d, s.m, s.n, s.m + s.padding)),
        d_layout(make_lt_layout(s.d, s.m, s.n, s.m + s.padding)),
        a(s.a, a_size() * static_cast<std::size_t>(s.batch)),
        b(s.b, b_size() * static_cast<std::size_t>(s.batch)),
        c(s.d, d_size() * static_cast<std::size_t>(s.batch)),
        d(s.d, d_size() * static_cast<std::size_t>(s.batch)),
        workspace(CUDA_R_32F, 1 << 16) {
    std::mt19937 random(static_cast<unsigned>(s.m + 3 * s.n + 7 * s.k));
    for (Buffer* const x : {&a, &b, &c, &d}) x->fill(random);
    set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N});
    set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t{s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N});
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{4 << 16});
    set_batch();
    if (s.row_major_a) lay_out(a_layout, CUBLASLT_MATRIX_LAYOUT_ORDER, std::int32_t{CUBLASLT_ORDER_ROW});
  }

  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value);
  }
  template <class T>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value);
  }
  template <class T>
  void lay_out(const LtLayout& layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t find(std::vector<cublasLtMatmulHeuristicResult_t>& found) {
    int count = 0;
    found.resize(8);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library.get(), desc.get(), a_layout.get(), b_layout.get(), c_layout.get(), d_layout.get(),
        preference.get(), 8, found.data(), &count);
    found.resize(static_cast<std::size_t>(count));
    return status;
  }
  cublasStatus_t find() {
    std::vector<cublasLtMatmulHeuristicResult_t> found;
    return find(found);
  }

  cublasStatus_t enqueue(const cublasLtMatmulAlgo_t* algo = nullptr, cudaStream_t stream = nullptr) {
    return cublasLtMatmul(library.get(), desc.get(), alpha_pointer, a_data, a_layout.get(), b_data,
                          b_layout.get(), beta_pointer, in_place ? d_data : c_data, c_layout.get(), d_data,
                          d_layout.get(), algo, workspace_data, workspace_bytes, stream);
  }
  void run(const cublasLtMatmulAlgo_t* algo = nullptr) {
    REQUIRE(enqueue(algo) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }

  /// What element (i, j) must become: alpha·factor(i, j)·Σ + beta·c. Before the run: it may be in place.
  double expected(std::int64_t i, std::int64_t j, int in_batch = 0) const {
    const auto batch_of = [&](std::size_t size) { return static_cast<std::size_t>(in_batch) * size; };
    double sum = 0;
    for (std::int64_t l = 0; l < s.k; ++l) {
      const std::int64_t ar = s.transpose_a ? l : i, ac = s.transpose_a ? i : l;
      const std::int64_t at =
          s.row_major_a ? ar * (a_cols() + s.padding) + ac : ac * (a_rows + s.padding) + ar;
      const std::int64_t br = s.transpose_b ? j : l, bc = s.transpose_b ? l : j;
      sum += a[batch_of(a_size()) + static_cast<std::size_t>(at)] *
             b[batch_of(b_size()) + static_cast<std::size_t>(bc * (b_rows + s.padding) + br)];
    }
    const double old = beta == 0 ? 0 : (in_place ? d : c)[batch_of(d_size()) + place(i, j)];
    return alpha * factor(i, j) * sum + beta * old;
  }
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(j * (s.m + s.padding) + i);
  }

  /// Runs and compares all elements.
  void check(const cublasLtMatmulAlgo_t* algo = nullptr, double tolerance = 1e-5) {
    std::vector<double> want;
    for_each([&](std::int64_t i, std::int64_t j, int in_batch) { want.push_back(expected(i, j, in_batch)); });
    run(algo);
    const double relative = tolerance + (s.d == CUDA_R_16BF ? 1.0 / 256 : 0);
    std::size_t next = 0;
    for_each([&](std::int64_t i, std::int64_t j, int in_batch) {
      INFO("(" << i << ", " << j << ") of " << in_batch);
      const double got = d[static_cast<std::size_t>(in_batch) * d_size() + place(i, j)];
      const double scale = std::abs(alpha) * std::sqrt(static_cast<double>(s.k)) * 4;
      REQUIRE(got == Approx(want[next]).epsilon(relative).margin(tolerance * scale));
      ++next;
    });
  }

  const Shape s;
  LtLibrary library;
  LtDesc desc;
  LtPreference preference;
  std::int64_t a_rows, b_rows;
  LtLayout a_layout, b_layout, c_layout, d_layout;
  Buffer a, b, c, d, workspace;
  void *a_data = a.get(), *b_data = b.get(), *c_data = c.get(), *d_data = d.get(),
       *workspace_data = workspace.get();
  std::size_t workspace_bytes = 4 << 16;
  float alpha = 1, beta = 0;
  const void *alpha_pointer = &alpha, *beta_pointer = &beta;
  bool in_place = false;
  std::function<double(std::int64_t, std::int64_t)> factor = [](std::int64_t, std::int64_t) { return 1; };

 private:
  std::int64_t a_cols() const { return s.transpose_a ? s.m : s.k; }
  std::int64_t b_cols() const { return s.transpose_b ? s.k : s.n; }
  std::size_t a_size() const {
    return static_cast<std::size_t>(s.row_major_a ? a_rows * (a_cols() + s.padding)
                                                  : a_cols() * (a_rows + s.padding));
  }
  std::size_t b_size() const { return static_cast<std::size_t>(b_cols() * (b_rows + s.padding)); }
  std::size_t d_size() const { return static_cast<std::size_t>(s.n * (s.m + s.padding)); }
  void set_batch() {
    if (s.batch == 1) return;
    const std::pair<const LtLayout*, std::size_t> all[] = {
        {&a_layout, a_size()}, {&b_layout, b_size()}, {&c_layout, d_size()}, {&d_layout, d_size()}};
    for (const auto& [layout, size] : all) {
      lay_out(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{s.batch});
      lay_out(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(size));
    }
  }
  void for_each(const std::function<void(std::int64_t, std::int64_t, int)>& f) const {
    for (int in_batch = 0; in_batch < s.batch; ++in_batch)
      for (std::int64_t j = 0; j < s.n; ++j)
        for (std::int64_t i = 0; i < s.m; ++i) f(i, j, in_batch);
  }
};

Shape float8_shape(cudaDataType a = CUDA_R_8F_E4M3, cudaDataType b = CUDA_R_8F_E4M3) {
  return {.transpose_a = true, .a = a, .b = b};
}

TEST_CASE("products of every type and layout are those of a double loop", "[cublaslt]") {
  const std::tuple<cudaDataType, cudaDataType> types[] = {
      {CUDA_R_32F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
  const Shape sizes[] = {{.m = 1, .n = 1, .k = 1},
                         {.m = 7, .n = 3, .k = 11, .padding = 3},
                         {.m = 33, .n = 66, .k = 20, .padding = 1},
                         {.m = 65, .n = 5, .k = 300},
                         {.m = 16, .n = 8, .k = 24, .padding = 8, .batch = 3}};
  for (const auto& [input, output] : types)
    for (Shape shape : sizes)
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
          for (const bool row_major_a : {false, true}) {
            shape.a = shape.b = input;
            shape.d = output;
            shape.transpose_a = transpose_a;
            shape.transpose_b = transpose_b;
            shape.row_major_a = row_major_a;
            INFO(shape.m << "x" << shape.n << "x" << shape.k << " of types " << input << ", " << output
                         << " transposed " << transpose_a << transpose_b << " row major " << row_major_a);
            Product(shape).check();
          }
}

TEST_CASE("alpha and beta scale, in place and not", "[cublaslt]") {
  for (const bool in_place : {false, true})
    for (const cudaDataType type : {CUDA_R_32F, CUDA_R_16BF}) {
      Product product({.m = 33, .n = 18, .k = 20, .a = type, .b = type, .d = type, .padding = 1});
      product.alpha = -0.5f;
      product.beta = 2;
      product.in_place = in_place;
      product.check();
    }
}

TEST_CASE("without beta what was in C does not matter", "[cublaslt]") {
  Product product({});
  for (std::size_t i = 0; i < 32 * 16; ++i) product.c.set(i, NAN);
  product.check();
  product.c_data = nullptr;
  product.check();
  product.in_place = true;
  for (std::size_t i = 0; i < 32 * 16; ++i) product.d.set(i, NAN);
  product.check();
}

TEST_CASE("every value of the 8-bit types is read as it is defined", "[cublaslt]") {
  for (const cudaDataType type : {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
    // Row i of op(A) holds one value at place i % 16, and B is one there.
    Product product({.m = 256, .n = 16, .k = 16, .transpose_a = true, .a = type, .b = CUDA_R_8F_E4M3});
    std::vector<std::uint8_t> a(256 * 16, 0), b(16 * 16, 0);
    for (std::size_t i = 0; i < 256; ++i) a[i * 16 + i % 16] = static_cast<std::uint8_t>(i);
    for (std::size_t l = 0; l < 16; ++l) b[l * 16 + l] = 0x38;  // 1.0
    product.a.set_bytes(a);
    product.b.set_bytes(b);
    product.run();
    for (unsigned bits = 0; bits < 256; ++bits) {
      const double got = product.d[product.place(bits, bits % 16)], want = decode(type, bits);
      INFO(type << " " << bits);
      CHECK((std::isnan(want) ? std::isnan(got) : got == want));
    }
  }
}

TEST_CASE("8-bit products are scaled by tensor and by row", "[cublaslt]") {
  const std::pair<cudaDataType, cudaDataType> types[] = {
      {CUDA_R_8F_E4M3, CUDA_R_8F_E4M3}, {CUDA_R_8F_E5M2, CUDA_R_8F_E4M3}, {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}};
  for (const auto& [a, b] : types)
    for (const cudaDataType d : {CUDA_R_32F, CUDA_R_16BF})
      for (const bool by_row : {false, true}) {
        Shape shape = float8_shape(a, b);
        shape.d = d;
        Product product(shape);
        Buffer scale_a(CUDA_R_32F, 32), scale_b(CUDA_R_32F, 16);
        for (std::size_t i = 0; i < 32; ++i) scale_a.set(i, 0.5f + static_cast<float>(i));
        for (std::size_t i = 0; i < 16; ++i) scale_b.set(i, 0.25f + static_cast<float>(i) / 8);
        product.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_a.get());
        product.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_b.get());
        const std::int32_t mode =
            by_row ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
        product.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
        product.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
        product.factor = [&](std::int64_t i, std::int64_t j) {
          return scale_a[by_row ? static_cast<std::size_t>(i) : 0] *
                 scale_b[by_row ? static_cast<std::size_t>(j) : 0];
        };
        product.beta = 1;
        product.check(nullptr, 1e-4);
      }
}

TEST_CASE("every algorithm is right, and those that cut the sum need their workspace", "[cublaslt]") {
  Product product({.m = 32, .n = 24, .k = 320, .a = CUDA_R_16BF, .b = CUDA_R_16BF});
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(found.size() == 5);
  std::vector<double> bits;
  for (const cublasLtMatmulHeuristicResult_t& result : found) {
    product.check(&result.algo, 1e-4);
    bits.push_back(product.d[5]);
    std::int32_t splits = 0;
    REQUIRE(cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                 sizeof splits, nullptr) == CUBLAS_STATUS_SUCCESS);
    CHECK((splits > 1) == (result.workspaceSize > 0));
    if (splits == 1) continue;
    product.workspace_bytes = result.workspaceSize - 1;
    CHECK(product.enqueue(&result.algo) == CUBLAS_STATUS_INVALID_VALUE);
    product.workspace_bytes = 4 << 16;
  }
  std::sort(bits.begin(), bits.end());
  CHECK(std::unique(bits.begin(), bits.end()) - bits.begin() > 2);
}

TEST_CASE("the heuristic keeps to the preferences", "[cublaslt]") {
  Product product({.m = 32, .n = 24, .k = 320, .a = CUDA_R_16BF, .b = CUDA_R_16BF, .d = CUDA_R_16BF});
  std::vector<cublasLtMatmulHeuristicResult_t> all, found;
  REQUIRE(product.find(all) == CUBLAS_STATUS_SUCCESS);
  CHECK(all.front().workspaceSize > 0);  // a long sum of a small result

  product.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found.size() == all.size() - 1);
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{2});
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found.size() == 2);
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found.size() == 1);
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{1});
  CHECK(product.find(found) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(found.empty());
}

TEST_CASE("an algorithm is bytes that can be kept, and only the library's own", "[cublaslt]") {
  Product product({.m = 32, .n = 24, .k = 320});
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulAlgo_t algo = found.front().algo;
  cublasLtMatmulHeuristicResult_t result;
  const auto check = [&] {
    return cublasLtMatmulAlgoCheck(product.library.get(), product.desc.get(), product.a_layout.get(),
                                   product.b_layout.get(), product.c_layout.get(), product.d_layout.get(),
                                   &algo, &result);
  };
  CHECK(check() == CUBLAS_STATUS_SUCCESS);
  CHECK(result.workspaceSize == found.front().workspaceSize);
  const std::int32_t splits = 5;
  CHECK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                             sizeof splits) == CUBLAS_STATUS_SUCCESS);
  CHECK(check() == CUBLAS_STATUS_SUCCESS);
  CHECK(result.workspaceSize == 5 * 32 * 24 * 4);
  CHECK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &splits, sizeof splits) ==
        CUBLAS_STATUS_INVALID_VALUE);
  algo.data[0] ^= 1;
  CHECK(check() == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.enqueue(&algo) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("a product runs in its stream, with alpha of the call and scales of the run", "[cublaslt]") {
  Product product(float8_shape());
  Buffer scale(CUDA_R_32F, 1);
  scale.set(0, 8);
  product.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale.get());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  product.d.set(0, 77);
  product.alpha = 1;
  REQUIRE(product.enqueue(nullptr, stream) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.d[0] == 77);
  product.alpha = 3;
  scale.set(0, 2);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  product.alpha = 1;
  product.factor = [](std::int64_t, std::int64_t) { return 2; };
  CHECK(product.d[0] == Approx(product.expected(0, 0)).epsilon(1e-4));
  cudaStreamDestroy(stream);
}

TEST_CASE("a product is captured, and reads device memory when its graph runs", "[cublaslt]") {
  Product product({});
  Buffer factors(CUDA_R_32F, 2);
  product.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  product.alpha_pointer = factors.get();
  product.beta_pointer = static_cast<float*>(factors.get()) + 1;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  REQUIRE(product.enqueue(nullptr, stream) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  for (const float alpha : {1.0f, 4.0f}) {
    factors.set(0, alpha);
    factors.set(1, 1);
    product.alpha = alpha;
    product.beta = 1;
    cudaGraphLaunch(exec, stream);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(product.d[9] == Approx(product.expected(9, 0)).epsilon(1e-4));
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("memory that is not the device's is an error of the run", "[cublaslt]") {
  Product product({});
  alignas(16) static float elsewhere[32 * 48];
  product.a_data = elsewhere;
  REQUIRE(product.enqueue() == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorString(cudaErrorLaunchFailure)) ==
        "cublasLtMatmul: A is not in device memory");
  host::reset_device();
}

// --- Refusals
// ------------------------------------------------------------------------------------------------

/// Heuristic and call both answer `status`.
void refuses(Product& product, cublasStatus_t status) {
  CHECK(product.find() == status);
  CHECK(product.enqueue() == status);
}

TEST_CASE("8-bit products of other layouts, sizes and types are refused", "[cublaslt]") {
  for (const auto& [transpose_a, transpose_b] : {std::pair{false, false}, {false, true}, {true, true}}) {
    Shape shape = float8_shape();
    shape.transpose_a = transpose_a;
    shape.transpose_b = transpose_b;
    Product product(shape);
    refuses(product, CUBLAS_STATUS_NOT_SUPPORTED);
  }
  for (const Shape& size : {Shape{.m = 24}, Shape{.n = 8}, Shape{.k = 40}, Shape{.padding = 4}}) {
    Shape shape = float8_shape();
    shape.m = size.m, shape.n = size.n, shape.k = size.k, shape.padding = size.padding;
    Product product(shape);
    refuses(product, CUBLAS_STATUS_NOT_SUPPORTED);
  }
  Product both_e5m2(float8_shape(CUDA_R_8F_E5M2, CUDA_R_8F_E5M2));
  refuses(both_e5m2, CUBLAS_STATUS_NOT_SUPPORTED);
  Product mixed({.a = CUDA_R_16BF, .b = CUDA_R_32F});
  refuses(mixed, CUBLAS_STATUS_NOT_SUPPORTED);
  Product narrow({.d = CUDA_R_16BF});
  refuses(narrow, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("scales that no GPU takes are refused", "[cublaslt]") {
  Buffer scale(CUDA_R_32F, 32);
  Product unscaled({});
  unscaled.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale.get());
  refuses(unscaled, CUBLAS_STATUS_INVALID_VALUE);
  Product result(float8_shape());
  result.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scale.get());
  refuses(result, CUBLAS_STATUS_INVALID_VALUE);

  Product half(float8_shape());
  half.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale.get());
  half.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
  refuses(half, CUBLAS_STATUS_NOT_SUPPORTED);
  half.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
  refuses(half, CUBLAS_STATUS_INVALID_VALUE);
  half.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale.get());
  CHECK(half.find() == CUBLAS_STATUS_SUCCESS);
  half.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0});
  half.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, std::int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0});
  refuses(half, CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("pointers must be there and aligned", "[cublaslt]") {
  Product float8(float8_shape());
  float8.a_data = static_cast<std::byte*>(float8.a_data) + 8;
  CHECK(float8.enqueue() == CUBLAS_STATUS_NOT_SUPPORTED);  // no algorithm
  std::vector<cublasLtMatmulHeuristicResult_t> found;

  Product product({.a = CUDA_R_16BF, .b = CUDA_R_16BF});
  REQUIRE(product.find(found) == CUBLAS_STATUS_SUCCESS);
  product.b_data = static_cast<std::byte*>(product.b_data) + 2;
  CHECK(product.enqueue(&found.front().algo) == CUBLAS_STATUS_INVALID_VALUE);  // promised more
  product.b_data = nullptr;
  CHECK(product.enqueue(&found.front().algo) == CUBLAS_STATUS_INVALID_VALUE);
  product.b_data = product.b.get();
  product.workspace_data = static_cast<std::byte*>(product.workspace_data) + 4;
  CHECK(product.enqueue(&found.front().algo) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("layouts that do not fit each other are refused", "[cublaslt]") {
  const auto with = [](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    Product product({});
    product.lay_out(product.b_layout, attribute, value);
    refuses(product, CUBLAS_STATUS_INVALID_VALUE);
  };
  with(CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{47});
  with(CUBLASLT_MATRIX_LAYOUT_ROWS, std::uint64_t{32});
  with(CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{0});
  with(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{2});
  with(CUBLASLT_MATRIX_LAYOUT_ORDER, std::int32_t{2});

  Product in_place({.padding = 4});
  in_place.in_place = true;
  in_place.lay_out(in_place.c_layout, CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{32});
  CHECK(in_place.enqueue() == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("other arithmetic than titan's is refused", "[cublaslt]") {
  const auto with = [](cublasLtMatmulDescAttributes_t attribute, auto value) {
    Product product({});
    REQUIRE(product.set(attribute, value) == CUBLAS_STATUS_SUCCESS);
    refuses(product, CUBLAS_STATUS_NOT_SUPPORTED);
  };
  with(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  with(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, std::int32_t{CUBLAS_COMPUTE_16F});
  with(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE_VECTOR});
  with(CUBLASLT_MATMUL_DESC_TRANSC, std::int32_t{CUBLAS_OP_T});
}

TEST_CASE("attributes have one size and are read back", "[cublaslt]") {
  const LtDesc desc = make_lt_desc();
  const std::int32_t target = 120;
  const std::int8_t fast = 1;
  CHECK(cublasLtMatmulDescSetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, 4) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(cublasLtMatmulDescSetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_FAST_ACCUM, &target, 4) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulDescSetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, 1) ==
        CUBLAS_STATUS_SUCCESS);
  std::int32_t value = 0;
  std::size_t bytes = 0;
  CHECK(cublasLtMatmulDescGetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, nullptr, 0,
                                       &bytes) == CUBLAS_STATUS_SUCCESS);
  CHECK(bytes == 4);
  CHECK(cublasLtMatmulDescGetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &value, 4, &bytes) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(value == 120);
  CHECK(cublasLtMatmulDescGetAttribute(desc.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &value, 2, &bytes) ==
        CUBLAS_STATUS_INVALID_VALUE);

  const LtLayout layout = make_lt_layout(CUDA_R_16BF, 3, 4, 5);
  std::int64_t ld = 0;
  CHECK(cublasLtMatrixLayoutGetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_LD, &ld, 8, nullptr) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(ld == 5);
  const LtPreference preference = make_lt_preference();
  std::uint32_t alignment = 0;
  CHECK(cublasLtMatmulPreferenceGetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                             &alignment, 4, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(alignment == 256);
}

}  // namespace
}  // namespace titan::cuda
