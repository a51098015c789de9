#include "engine/checkpoint/background_save.h"

#include "kernels/base/error.h"

#include <spdlog/spdlog.h>

namespace titan {

BackgroundSave::~BackgroundSave() {
  if (!pending()) return;
  try {
    take();
  } catch (const std::exception& error) {
    spdlog::error("The checkpoint of step {} was not saved: {}; the last good checkpoint is untouched", step_,
                  error.what());
  }
}

void BackgroundSave::start(int64_t step, std::function<SaveResult()> save) {
  TITAN_CHECK(!pending(), "the save of step {} has not been waited for", step_);
  step_ = step;
  result_ = std::async(std::launch::async, std::move(save));
}

bool BackgroundSave::ended() const {
  return pending() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace titan
