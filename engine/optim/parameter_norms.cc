#include "engine/optim/parameter_norms.h"

#include "engine/optim/square_sum.h"
#include "engine/program/edit.h"

namespace titan {
namespace {

class NormWriter {
 public:
  explicit NormWriter(Program& program) : p_(program) {}

  Segment write() {
    const auto count = static_cast<std::int64_t>(p_.parameters.size());
    const auto output = [&](const char* name) {
      return add_value(p_, name, DType::f32, 1, count, Role::output, Lifetime::step);
    };
    const ValueId gradients = output("gradient_square_sums"), weights = output("weight_square_sums");
    for (std::int64_t i = 0; i < count; ++i) {
      const Parameter parameter = p_.parameters[static_cast<std::size_t>(i)];
      sum_squares(parameter, parameter.gradient, "gradient", gradients, i);
      sum_squares(parameter, parameter.master, "weight", weights, i);
    }
    return std::move(segment_);
  }

 private:
  /// Bucket storage is contiguous, so a parameter's box is one row there.
  void sum_squares(const Parameter& parameter, ValueId matrix, const std::string& what, ValueId sums,
                   std::int64_t index) {
    const Value v = p_.value(matrix);
    const ValueId x = add_slice(p_, parameter.name + "." + what + ".flat", p_.base_of(matrix),
                                v.offset / size_of(v.dtype), 1, v.rows * v.cols);
    const ValueId sum = add_slice(p_, parameter.name + "." + what + ".square_sum", sums, index, 1, 1);
    Node node;
    node.op = square_sum(p_, x, sum);
    node.tag = {.layer = parameter.layer, .phase = Phase::optimizer};
    node.id = p_.next_node++;
    segment_.nodes.push_back(std::move(node));
  }

  Program& p_;
  Segment segment_{.name = "parameter_norms", .nodes = {}};
};

}  // namespace

void append_parameter_norms(Program& program) {
  Segment segment = NormWriter(program).write();
  append_final_segment(program, std::move(segment));
}

}  // namespace titan
