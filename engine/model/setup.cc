#include "engine/model/setup.h"

#include <algorithm>
#include <set>

#include "engine/program/builder.h"
#include "kernels/base/error.h"
#include "kernels/base/philox.h"

namespace titan {
namespace {

/// The same persistent value in another program: placement unites them by name.
ValueId declare_like(ProgramBuilder& b, const Program& of, ValueId id) {
  const Value& v = of.value(id);
  return b.value(v.name, v.dtype, v.rows, v.cols, {.role = v.role, .lifetime = v.lifetime, .space = v.space});
}

/// The CPU makes what is in host memory.
Lane lane_of(const Program& of, ValueId id) {
  return of.value(id).space == Space::host ? Lane::host : Lane::compute;
}

class Initializer {
 public:
  Initializer(const Program& of, const ModelConfig& config)
      : of_(of), specs_(parameters(config)), b_("initialize") {}

  Program run() {
    b_.begin_segment("initialize");
    b_.set_tag({.layer = -1, .phase = Phase::setup});
    const Space space = of_.value(of_.buckets.front().master).space;
    seed_ =
        b_.value("seed", DType::i64, 1, 1, {.role = Role::input, .lifetime = Lifetime::step, .space = space});
    for (const Bucket& bucket : of_.buckets) initialize(bucket);
    if (const ValueId stop = of_.find("stop"); stop != kNoValue)
      b_.emit(Fill{.y = b_.out(declare_like(b_, of_, stop))});
    set_straight_timeline(b_.program());
    return b_.take();
  }

 private:
  void initialize(const Bucket& bucket) {
    const ValueId master = declare_like(b_, of_, bucket.master);
    for (const Parameter& p : of_.parameters)
      if (of_.value(p.master).base == bucket.master) initialize(p, master);
    for (const Bucket::Run& gap : bucket.padding)
      b_.emit(Fill{.y = b_.out(b_.slice(bucket.name + ".padding", master, gap.begin, 1, gap.count))},
              lane_of(of_, bucket.master));
    for (const ValueId moment : {bucket.exp_avg, bucket.exp_avg_sq})
      if (moment != kNoValue) b_.emit(Fill{.y = b_.out(declare_like(b_, of_, moment))}, lane_of(of_, moment));
  }

  void initialize(const Parameter& p, ValueId master) {
    const auto spec =
        std::find_if(specs_.begin(), specs_.end(), [&](const ParameterSpec& s) { return s.name == p.name; });
    TITAN_CHECK(spec != specs_.end(), "no initial values for {}", p.name);
    const Value& v = of_.value(p.master);
    const ValueId y = b_.slice(p.name, master, v.offset / size_of(v.dtype), v.rows, v.cols);
    b_.set_tag({.layer = p.layer, .phase = Phase::setup});
    if (spec->init.ones) {
      b_.emit(Fill{.y = b_.out(y), .value = 1}, lane_of(of_, p.master));
      return;
    }
    b_.emit(InitNormal{.seed = b_.in(seed_),
                       .y = b_.out(y),
                       .stream = hash_name(p.name),
                       .std = spec->init.std,
                       .cutoff = spec->init.cutoff,
                       .first_row = p.first_row,
                       .first_col = p.first_col,
                       .global_cols = p.global_cols},
            lane_of(of_, p.master));
  }

  const Program& of_;
  std::vector<ParameterSpec> specs_;
  ProgramBuilder b_;
  ValueId seed_ = kNoValue;
};

}  // namespace

Program build_initialize_program(const Program& of, const ModelConfig& config) {
  return Initializer(of, config).run();
}

Program build_refresh_program(std::span<const Program* const> of, const ModelConfig& config) {
  ProgramBuilder b("refresh");
  b.begin_segment("refresh");
  b.set_tag({.layer = -1, .phase = Phase::setup});
  std::set<std::string> made;
  for (const Program* program : of) {
    for (ValueId id = 0; id < static_cast<ValueId>(program->values.size()); ++id) {
      const Value& v = program->value(id);
      const bool derived = v.role == Role::constant || v.role == Role::weight;
      if (v.is_view() || v.lifetime != Lifetime::persistent || !derived || !made.insert(v.name).second)
        continue;
      const ValueId y = declare_like(b, *program, id);
      if (v.role == Role::weight) {
        constexpr std::string_view kSuffix =
            ".weight";  // "bucket.NAME.weight" is cast from "bucket.NAME.master"
        const std::string master = v.name.substr(0, v.name.size() - kSuffix.size()) + ".master";
        b.emit(Cast{.x = b.in(declare_like(b, *program, program->at(master))), .y = b.out(y)});
      } else if (v.name == "rope_table") {
        b.emit(RopeTable{.table = b.out(y), .theta = config.rope_theta, .scaling = config.rope_scaling});
      } else {
        TITAN_CHECK(v.name == "cache_position", "nothing derives the constant {}", v.name);
        b.emit(Iota{.y = b.out(y)});
      }
    }
  }
  set_straight_timeline(b.program());
  return b.take();
}

}  // namespace titan
