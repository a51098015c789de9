// The line a step leaves in the log, in TorchTitan v0.2's format, so that its log readers work on titan's
// logs.
#pragma once

#include <cstdint>
#include <string>

namespace titan {

struct StepMetrics;
struct ValidationMetrics;

/// `step:  1  loss:  8.0491  grad_norm:  1.2345  memory:  1.84GiB(1.93%)  tps: 3,145  tflops: 11.61
/// mfu: 1.17%`. An unknown MFU prints `mfu: n/a`, an unknown capacity leaves out the percentage.
std::string step_line(const StepMetrics& metrics, bool color);

/// `validate step:  5  loss:  4.1000  memory:  1.84GiB(1.93%)  tps: 9,000`.
std::string validation_line(const ValidationMetrics& metrics, bool color);

/// `1,234,567`; never depends on the locale.
std::string with_thousands(int64_t value);
/// `1,234.57` with `digits` after the point; `nan` and `inf` as they are.
std::string with_thousands(double value, int digits);

}  // namespace titan
