// mbarrier objects on the host: what a phase waits for is arrivals, and bytes that copies bring. The objects
// are kept beside shared memory, whose 8 bytes are a name only.
#pragma once

#include <cstdint>

#include "kernels/cuda/host/grid.h"

namespace titan::cuda::host {

/// `arrivals` complete a phase.
void init_barrier(std::uint64_t* barrier, std::uint32_t arrivals, Site site = Site::current());
/// What the calling thread has initialised may be used by copies.
void publish_barriers();
/// Throws unless it is published. Before a copy that shall arrive there.
void check_published(std::uint64_t* barrier, Site site = Site::current());
void arrive(std::uint64_t* barrier, Site site = Site::current());
/// Arrives, and the current phase waits for `bytes` more.
void arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes, Site site = Site::current());
/// Of a copy that has arrived.
void complete_bytes(std::uint64_t* barrier, std::uint32_t bytes, Site site = Site::current());
/// Waits until the phase of this parity is complete; the phase before the first has parity 1 and is.
void wait_parity(std::uint64_t* barrier, unsigned parity, Site site = Site::current());

}  // namespace titan::cuda::host
