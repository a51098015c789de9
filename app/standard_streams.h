// The three standard descriptors, whatever state the caller left them in.
#pragma once

namespace titan {

/// Opens those of descriptors 0, 1 and 2 that are closed, so that no file of the run gets their number and,
/// with it, log lines or results in its content. What is written to them still fails.
void occupy_standard_descriptors();

/// Writes out what stdout buffers. Throws UserError if any of the results did not reach it.
void finish_output();

}  // namespace titan
