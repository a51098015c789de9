#include "kernels/cpu/base/processors.h"

#include <sched.h>

namespace titan::cpu {

std::vector<int> allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return {0};
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) processors.push_back(i);
  return processors;
}

void bind_thread(int processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(processor, &mask);
  sched_setaffinity(0, sizeof mask, &mask);
}

}  // namespace titan::cpu
