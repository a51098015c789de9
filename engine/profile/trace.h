// Traces in the Trace Event Format that chrome://tracing and ui.perfetto.dev open: a track a lane, a slice a
// node, and counters of the memory in use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "engine/program/program.h"

namespace titan {

struct TraceOptions {
  std::string title;                  ///< shown as the process's name
  int rank = 0;                       ///< the process's number
  std::int64_t persistent_bytes = 0;  ///< below the transient memory that the counters show
};

/// The trace of one run of a program; times are those of its unrolled nodes, in order. Slices are named by
/// operation; their arguments are layer, phase, micro-batch and the line that dump prints. Counters say what
/// values alive at the node occupy, by memory space.
std::string trace_json(const Program& program, std::span<const CommandTime> times,
                       const TraceOptions& options);

/// Writes it, making the folders above. Throws UserError.
void write_trace(const std::filesystem::path& path, const Program& program,
                 std::span<const CommandTime> times, const TraceOptions& options);

}  // namespace titan
