// Runs the op table through Catch2: one test case a row. `--perf [filter]` times the rows instead.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/kernels/ops/op_table.h"

namespace {

struct RowTest final : Catch::ITestInvoker {
  explicit RowTest(const titan::op_test::Row& row) : row(row) {}
  void invoke() const override { row.tests(titan::op_test::check); }
  titan::op_test::Row row;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--perf") {
    titan::op_test::run_perf(argc > 2 ? argv[2] : "");
    return 0;
  }
  for (const auto& row : titan::op_test::table())
    Catch::getMutableRegistryHub().registerTest(Catch::makeTestCase(
        new RowTest(row), "", Catch::NameAndTags{row.name, "[op]"}, CATCH_INTERNAL_LINEINFO));
  return Catch::Session().run(argc, argv);
}
