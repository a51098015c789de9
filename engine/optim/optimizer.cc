#include "engine/optim/optimizer.h"

#include <fmt/format.h>

#include "engine/optim/square_sum.h"
#include "engine/program/edit.h"

namespace titan {
namespace {

class OptimizerWriter {
 public:
  OptimizerWriter(Program& program, const OptimizerSettings& settings) : p_(program), s_(settings) {}

  Segment write() {
    for (const Bucket& bucket : p_.buckets) clear_padding(bucket);
    const ValueId sums =
        add_value(p_, "square_sums", DType::f32, 1, static_cast<std::int64_t>(p_.buckets.size()),
                  Role::scratch, Lifetime::step);
    for (std::size_t i = 0; i < p_.buckets.size(); ++i) {
      const ValueId sum = add_slice(p_, fmt::format("square_sums.{}", p_.buckets[i].name), sums,
                                    static_cast<std::int64_t>(i), 1, 1);
      emit(square_sum(p_, p_.buckets[i].gradient, sum));
    }
    const ValueId norm = add_value(p_, "grad_norm", DType::f32, 1, 1, Role::output, Lifetime::step);
    const ValueId scale = add_value(p_, "clip_scale", DType::f32, 1, 1, Role::scratch, Lifetime::step);
    stop_ = add_value(p_, "stop", DType::i32, 1, 1, Role::output, Lifetime::persistent);
    emit(ClipScale{.square_sums = use<In>(sums),
                   .loss = use<In>(p_.at("loss")),
                   .norm = use<Out>(norm),
                   .scale = use<Out>(scale),
                   .stop = use<State>(stop_),
                   .max_norm = s_.max_norm});
    const ValueId hyper = add_value(p_, "hyper", DType::f32, 1, 3, Role::input, Lifetime::step);
    for (const Bucket& bucket : p_.buckets)
      for (const Bucket::Run& run : bucket.runs) update(bucket, run, scale, hyper);
    return std::move(segment_);
  }

 private:
  template <class OperandType>
  OperandType use(ValueId id) const {
    return operand<OperandType>(p_, id);
  }

  void emit(Op op) {
    Node node;
    node.op = std::move(op);
    node.tag = {.layer = -1, .phase = Phase::optimizer};
    node.id = p_.next_node++;
    segment_.nodes.push_back(std::move(node));
  }

  ValueId part(const Bucket& bucket, const char* what, ValueId of, const Bucket::Run& run) {
    const Value& v = p_.value(of);
    if (run.begin == 0 && run.count == v.cols) return of;
    return add_slice(p_, fmt::format("{}.{}.{}", bucket.name, what, run.begin), of, run.begin, 1, run.count);
  }

  /// Nothing writes the gradients of padding, and the norm reads whole buckets.
  void clear_padding(const Bucket& bucket) {
    for (const Bucket::Run& gap : bucket.padding)
      emit(Fill{.y = use<Out>(part(bucket, "gradient.padding", bucket.gradient, gap))});
  }

  void update(const Bucket& bucket, const Bucket::Run& run, ValueId scale, ValueId hyper) {
    emit(AdamW{.grad = use<In>(part(bucket, "gradient", bucket.gradient, run)),
               .scale = use<In>(scale),
               .hyper = use<In>(hyper),
               .stop = use<In>(stop_),
               .param = use<State>(part(bucket, "master", bucket.master, run)),
               .exp_avg = use<State>(part(bucket, "exp_avg", bucket.exp_avg, run)),
               .exp_avg_sq = use<State>(part(bucket, "exp_avg_sq", bucket.exp_avg_sq, run)),
               .beta1 = s_.beta1,
               .beta2 = s_.beta2,
               .epsilon = s_.epsilon,
               .weight_decay = run.decay ? s_.weight_decay : 0.0f});
  }

  Program& p_;
  const OptimizerSettings& s_;
  Segment segment_{.name = "optimizer", .nodes = {}};
  ValueId stop_ = kNoValue;
};

}  // namespace

void append_optimizer(Program& program, const OptimizerSettings& settings) {
  Segment segment = OptimizerWriter(program, settings).write();
  append_final_segment(program, std::move(segment));
}

}  // namespace titan
